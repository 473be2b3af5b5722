"""The audit as text, CSV and JSON, and the lists that stay at the sites."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feda3i.audit.case_rows import SecondLook
from feda3i.audit.findings import Audit, SiteFinding
from feda3i.audit.judge import percent
from feda3i.audit.pictures import Show, page_of_looks
from feda3i.engine.events import plain
from feda3i.files import csv_text, make_private, write_file
from feda3i.quality.objects import KINDS, flags
from feda3i.reading.names import folder_name

HEAD = ("site", "class", "by", "95 % interval", "sure", "by edges", "by model", "cases", "verdict")
LEFT = (0, 1, 8)
"""Columns of words."""


def text_of(audit: Audit) -> str:
    """Return the audit as a table for a terminal, with what was found and how to read it."""
    is_several = len(audit.overall) > 1
    rows = [HEAD, *(_cells(one) for one in by_size(audit.findings))]
    keep = [k for k in range(len(HEAD)) if k != 1 or is_several]
    widths = {k: max(len(row[k]) for row in rows) for k in keep}
    lines = [f"{audit.title}: audit of annotation quality", f"judged by {audit.how}", ""]
    for row in rows:
        cells = [row[k].ljust(widths[k]) if k in LEFT else row[k].rjust(widths[k]) for k in keep]
        lines.append("  ".join(cells).rstrip())
    lines += ["", f"in {audit.unit}; {matters(audit)}"]
    lines += [f"{one.class_name}: {one.said}" if is_several else one.said for one in audit.overall]
    lines += flags(audit.objects)
    lines += [f"cannot tell: {why}" for why in why_not(audit.findings, is_several)]
    lines += [f"NOTE: {note}" for note in audit.notes]
    return "\n".join([*lines, *audit.read])


def why_not(findings: Sequence[SiteFinding], is_several: bool) -> list[str]:
    """Return why sites were not judged, or not by every estimator; equal reasons together."""
    reasons: dict[str, list[str]] = {}
    for one in findings:
        name = f"{one.site} ({one.class_name})" if is_several else one.site
        if one.verdict == "cannot tell":
            reasons.setdefault(one.reason, []).append(name)
        for estimator, reason in one.silent.items():
            reasons.setdefault(f"by {estimator}, {reason}", []).append(name)
    return [
        f"{', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}: {reason}"
        for reason, names in reasons.items()
    ]


def csv_of(audit: Audit) -> str:
    """Return one line per site and class."""
    names = [name for name in vars(audit.findings[0]) if name not in ("by_estimator", "silent")]
    several = estimators_in(audit)
    objects = {(one.site, one.kind): one for one in audit.objects}
    shares = [(kind, part) for kind in KINDS if objects for part in ("share", "low", "high")]
    columns = [*names, *(f"relative_by_{name}" for name in several)]
    columns += [*(kind if part == "share" else f"{kind}_{part}" for kind, part in shares), "unit"]
    rows = []
    for one in audit.findings:
        values = [getattr(one, name) for name in names]
        values += [(one.by_estimator.get(name) or (None,))[0] for name in several]
        values += [getattr(objects.get((one.site, kind)), part, None) for kind, part in shares]
        values += [audit.unit, *([audit.true.get(one.site)] if audit.true else [])]
        rows.append(["" if v is None else _rounded(v) for v in values])
    return csv_text([*columns, *(["true"] if audit.true else [])], rows)


def looks_csv(looks: Sequence[SecondLook], classes: Sequence[str], unit: str) -> str:
    """Return a site's list as CSV; it holds the names of cases and stays at the site."""
    columns = ["rank", "case", "class", "look_again", "why", "misfit", "offset", "dice", "unit"]
    rows = []
    for one in looks:
        name = classes[one.class_number - 1]
        values = (one.misfit, one.offset, one.dice)
        known = [_rounded(v) if math.isfinite(v) else "" for v in values]
        again = "yes" if one.is_unusual else "no"
        rows.append([one.rank, one.case, name, again, one.reason, *known, unit])
    return csv_text(columns, rows)


def write_audit(
    folder: Path,
    audit: Audit,
    looks: Mapping[str, Sequence[SecondLook]],
    classes: Sequence[str],
    page: str,
    show: Show | None = None,
) -> list[Path]:
    """Write what may be shared into the folder, and each site's list into a folder of its own.

    With ``show``, a page of its cases to look at again lies beside each list.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        folder / "audit.json": json.dumps(plain(audit.to_dict()), indent=2) + "\n",
        folder / "audit.csv": csv_of(audit),
        folder / "audit.html": page,
    }
    shared = set(texts)
    for site, ranked in looks.items():
        own = make_private(make_private(folder / "stays-at-the-site") / folder_name(site))
        texts[own / "second-look.csv"] = looks_csv(ranked, classes, audit.unit)
        if show is not None and any(one.is_unusual for one in ranked):
            texts[own / "second-look.html"] = page_of_looks(site, ranked, show)
    for path, text in texts.items():
        mode = 0o666 if path in shared else 0o600
        write_file(path, text.encode("utf-8", "backslashreplace"), mode=mode)
    return list(texts)


def estimators_in(audit: Audit) -> list[str]:
    """Return the names of the estimators that an audit used."""
    return list(dict.fromkeys(name for one in audit.findings for name in one.by_estimator))


def unit_sign(unit: str) -> str:
    """Return a unit for the head of a column."""
    return "mm" if unit == "mm" else "px"


def by_size(findings: Sequence[SiteFinding]) -> list[SiteFinding]:
    """Return findings from the smallest to the largest drawer, unjudged ones last."""
    return sorted(
        findings,
        key=lambda f: (f.class_name, f.relative is None, f.relative or 0.0, f.site),
    )


def matters(audit: Audit) -> str:
    """Return in words which differences matter."""
    if audit.margin is None:
        return "a difference matters from 5 % of the objects' inner radius on: Dice falls as much"
    return f"a difference matters from {audit.margin:.1f} on"


def _cells(one: SiteFinding) -> tuple[str, ...]:
    each = [one.by_estimator.get(name) for name in ("edges", "contour")]
    ends = "" if one.low is None else f"{one.low:+.1f} to {one.high:+.1f}"
    return (
        one.site,
        one.class_name,
        "-" if one.relative is None else f"{one.relative:+.1f}",
        ends or "-",
        "-" if one.sure is None else percent(one.sure),
        *("-" if value is None else f"{value[0]:+.1f}" for value in each),
        str(one.cases),
        one.reason if one.verdict != "cannot tell" else f"cannot tell: {one.reason}",
    )


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
