"""The audit as text and CSV, and the lists that stay at the sites."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feda3i.audit.case_rows import SecondLook
from feda3i.audit.judge import ESTIMATORS, Audit, SiteFinding, percent
from feda3i.audit.pictures import Show, page_of_looks
from feda3i.files import csv_text, make_private, write_file
from feda3i.quality.objects import KINDS, flags
from feda3i.reading.names import folder_name

HEAD = ("site", "class", "by", "95 % interval", "sure", "by edges", "by model", "cases", "verdict")
LEFT = (0, 1, 8)  # columns of words
MATTERS = "a difference matters from 5 % of the objects' inner radius on: Dice falls as much"


def text_of(audit: Audit) -> str:
    """Return the audit as a table for a terminal, with what was found and how to read it."""
    is_several = len(audit.overall) > 1
    found = [one for said in audit.overall for one in audit.of_class(said.class_name)]
    columns = []
    for k, cells in enumerate(zip(HEAD, *map(_cells, found), strict=True)):
        align, width = str.ljust if k in LEFT else str.rjust, max(map(len, cells))
        columns += [[align(cell, width) for cell in cells]] if k != 1 or is_several else []
    lines = [f"{audit.title}: audit of annotation quality", f"judged by {audit.how}", ""]
    lines += ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    lines += ["", f"in {audit.unit}; {MATTERS}"]
    lines += [f"{one.class_name}: {one.said}" if is_several else one.said for one in audit.overall]
    lines += flags(audit.objects)
    lines += [f"cannot tell: {why}" for why in why_not(audit)]
    lines += [f"what helps: {text}" for text in audit.what_helps]
    lines += [f"NOTE: {note}" for note in audit.notes]
    return "\n".join([*lines, *audit.read])


def why_not(audit: Audit) -> list[str]:
    """Return why sites were not judged, or not by every estimator; equal reasons together."""
    reasons: dict[str, list[str]] = {}
    for one in audit.findings:
        name = f"{one.site} ({one.class_name})" if len(audit.overall) > 1 else one.site
        if one.verdict == "cannot tell":
            reasons.setdefault(one.reason, []).append(name)
        for estimator, reason in one.silent.items():
            reasons.setdefault(f"by {estimator}, {reason}", []).append(name)
    return [
        f"{', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}: {reason}"
        for reason, names in reasons.items()
    ]


def signed(value: float | None) -> str:
    """Return an offset with its sign."""
    return "-" if value is None else f"{value:+.1f}"


def ends_of(one: SiteFinding) -> str:
    """Return the ends of a site's interval."""
    return "-" if one.low is None else f"{one.low:+.1f} to {one.high:+.1f}"


def _cells(one: SiteFinding) -> tuple[str, ...]:
    return (
        one.site,
        one.class_name,
        signed(one.relative),
        ends_of(one),
        "-" if one.sure is None else percent(one.sure),
        *(signed(one.by_estimator.get(name)) for name in ESTIMATORS),
        str(one.cases),
        one.reason if one.verdict != "cannot tell" else f"cannot tell: {one.reason}",
    )


def csv_of(audit: Audit) -> str:
    """Return one line per site and class, with the share of each kind of wrong objects."""
    objects = {(one.site, one.kind): one.share for one in audit.objects}
    kinds = list(KINDS) if objects else []
    columns = ["site", "class_name", "cases", "verdict", "reason", "relative", "low", "high"]
    columns += ["sure", "unit"]
    rows = []
    for one in audit.findings:
        values = {**vars(one), "unit": audit.unit}
        shares = [objects.get((one.site, kind)) for kind in kinds]
        rows.append([_rounded(value) for value in [*map(values.get, columns), *shares]])
    return csv_text([*columns, *kinds], rows)


def looks_csv(looks: Sequence[SecondLook], classes: Sequence[str], unit: str) -> str:
    """Return a site's list as CSV; it holds the names of cases and stays at the site."""
    columns = ["rank", "case", "class", "look_again", "why", "misfit", "offset", "dice", "unit"]
    rows = []
    for rank, look in enumerate(looks, 1):
        one, again = look.row, "yes" if look.is_unusual else "no"
        known = map(_rounded, (one.misfit, one.offset, one.dice))
        rows.append([rank, one.case, classes[one.class_number - 1], again, look.reason])
        rows[-1] += [*known, unit]
    return csv_text(columns, rows)


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return "" if value is None else value
    return round(value, 4) if math.isfinite(value) else ""


def write_audit(
    folder: Path,
    audit: Audit,
    looks: Mapping[str, Sequence[SecondLook]],
    page: str,
    show: Show | None = None,
) -> list[Path]:
    """Write what may be shared into the folder, and each site's list into a folder of its own.

    With ``show``, a page of its cases to look at again lies beside each list.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shared = {folder / "audit.csv": csv_of(audit), folder / "audit.html": page}
    private, classes = {}, [one.class_name for one in audit.overall]
    for site, ranked in looks.items():
        own = make_private(make_private(folder / "stays-at-the-site") / folder_name(site))
        private[own / "second-look.csv"] = looks_csv(ranked, classes, audit.unit)
        if show is not None and any(one.is_unusual for one in ranked):
            private[own / "second-look.html"] = page_of_looks(site, ranked, show)
    for texts, mode in ((shared, 0o666), (private, 0o600)):
        for path, text in texts.items():
            write_file(path, text.encode("utf-8", "backslashreplace"), mode=mode)
    return [*shared, *private]
