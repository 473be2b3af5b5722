"""The audit as one HTML file: a plot of sites with intervals, the table, how to read it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from feda3i.audit.judge import CONTOUR, EDGES, ESTIMATORS, Audit, SiteFinding, sign_of
from feda3i.audit.writing import MATTERS, ends_of, signed, why_not
from feda3i.quality.objects import KINDS, ObjectFinding, flags, share_with_limits
from feda3i.report import html
from feda3i.report.axes import Axis, room
from feda3i.report.html import Cell, Column, Point, Section, Shape, Tone

VERDICTS: dict[str, tuple[Shape, int, Tone]] = {
    "larger": ("up", 0, "warn"),
    "smaller": ("down", 1, "warn"),
    "slightly": ("circle", 3, "plain"),
    "about the same": ("circle", 2, "good"),
    "cannot tell": ("cross", 6, "plain"),
}
"""Shape and colour of each verdict in the plot, and its tone in the table."""
ALONE: dict[str, tuple[Shape, float]] = {EDGES: ("cross", -5.0), CONTOUR: ("circle", 5.0)}
"""Shape of each estimator's own answer, and where it stands in a site's row."""
MOST, LONGEST = 80, 18  # sites in the plot, and letters of a name that fit beside it
KEPT = "white-space:nowrap"


def page_of(audit: Audit) -> str:
    """Return the page as text; it names sites, and no case."""
    several = len(audit.overall) > 1
    zero = "the trusted masks" if audit.is_absolute else "the others"
    facts: dict[str, Any] = {
        "unit": audit.unit,
        "sign": sign_of(audit.unit),
        "zero": zero,
        "matters": MATTERS,
    }
    sections = []
    for number, said in enumerate(audit.overall, 1):
        title = f"Who draws how: {said.class_name}" if several else "Who draws how"
        body = _block("who", **facts, **_who(audit, audit.of_class(said.class_name)))
        sections.append(Section(f"class-{number}", title, body, _sentence(said.said)))
    if any(one.share is not None for one in audit.objects):
        title, body = "Objects missed, made up or swapped", _block("objects", **_objects(audit))
        intro = _sentence("; ".join(flags(audit.objects)))
        sections.append(Section("objects", title, body, intro))
    sections.append(Section("read", "How to read this", _block("read", read=audit.read, **facts)))
    facts |= {"counts": Counter(one.verdict for one in audit.findings), "notes": audit.notes}
    what = "sites and classes" if several else "sites"
    top = _block("top", what=what, why_not=why_not(audit), helps=audit.what_helps, **facts)
    title, by = f"{audit.title}: audit of annotation quality", f"Judged by {audit.how}."
    return html.page(title, sections, subtitle=by, top=top, filter_sites=True)


def _block(name: str, **values: Any) -> html.Html:
    return html.block(name, values, file="audit.html.j2")


def _who(audit: Audit, findings: Sequence[SiteFinding]) -> dict[str, Any]:
    """Return plot and table of one class as the template takes them."""
    judged = [one for one in findings if one.relative is not None]
    # The true offsets from the audit's zero, in simulations.
    middle = 0.0 if audit.is_absolute or not audit.true else np.mean(list(audit.true.values()))
    true = {site: float(value - middle) for site, value in audit.true.items()}
    rows = judged[:MOST]
    ends = [v for one in rows for v in (one.low, one.high, 0.0) if v is not None]
    ends += [by for one in rows for by in one.by_estimator.values()]
    signs: list[tuple[str, Shape, int, str]] = [
        (words, shape, series, "")
        for words, (shape, series, _) in VERDICTS.items()
        if any(one.verdict == words for one in rows)
    ]
    if any(_marks(one) for one in rows):
        signs.append(("by the edges in its images", "cross", 6, ""))
        signs.append(("by a model's contours", "circle", 6, ""))
    if audit.true:
        signs.append(("the truth, which only simulations know", "circle", 6, "none"))
    return {
        "rows": [_row(one, true.get(one.site)) for one in rows],
        "more": len(judged) - len(rows),
        "about": "; ".join(f"{one.site}: {one.reason}" for one in rows[:3]),
        "x": Axis(room(ends or [0.0]), (165, 604)),
        "signs": signs,
        "has_true": bool(true),
        "table": [[*_cells(one), *([true.get(one.site)] if true else [])] for one in findings],
        "sites": [one.site for one in findings],
    }


def _row(one: SiteFinding, true: float | None) -> dict[str, Any]:
    shape, series, _ = VERDICTS[one.verdict]
    point = Point(one.relative or 0.0, 0.0, f"{one.site}: {one.reason}", shape, series)
    name = html.short(one.site, LONGEST)
    return {**vars(one), "name": name, "true": true, "alone": _marks(one), "point": point}


def _marks(one: SiteFinding) -> list[tuple[Shape, float, float]]:
    """Return what each estimator says, if both do: alone it would be the site's own mark."""
    if len(one.by_estimator) < len(ALONE):
        return []
    return [(*ALONE[name], by) for name, by in one.by_estimator.items()]


def _cells(one: SiteFinding) -> list[object]:
    badge = html.badge(VERDICTS[one.verdict][2], one.verdict)
    sure = "-" if one.sure is None else f"{100 * one.sure:.0f} %"
    return [
        Cell(html.name(one.site), one.site, KEPT if len(one.site) <= LONGEST else None),
        Cell(html.join([badge, f" {one.reason}"]), one.verdict),
        Cell(signed(one.relative), one.relative),
        Cell(ends_of(one), one.low, KEPT),
        *(Cell(signed(by), by) for by in map(one.by_estimator.get, ESTIMATORS)),
        Cell(sure, one.sure),
        one.cases,
    ]


def _objects(audit: Audit) -> dict[str, Any]:
    found = {(one.site, one.kind): one for one in audit.objects}
    sites = list(dict.fromkeys(one.site for one in audit.objects))
    kinds = [kind for kind in KINDS if kind != "swapped" or len(audit.overall) > 1]
    heads = [Column(kind, "number", hint=KINDS[kind].format("this share")) for kind in kinds]
    rows = [[Cell(html.name(s), s), *(_share(found[s, kind]) for kind in kinds)] for s in sites]
    return {"columns": [Column("site"), *heads], "table": rows, "sites": sites}


def _share(one: ObjectFinding) -> Cell:
    if one.share is None or one.low is None or one.high is None:
        return Cell("-")
    words = share_with_limits(one.share, one.low, one.high)
    return Cell(html.badge("warn", words) if one.is_flagged else words, one.share, KEPT)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
