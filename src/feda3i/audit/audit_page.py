"""The audit as one HTML file: a plot of sites with intervals, the table, how to read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from feda3i.audit.findings import Audit, SiteFinding, sign_of
from feda3i.audit.judge import ESTIMATORS
from feda3i.audit.writing import MATTERS, alone, interval, shown, why_not
from feda3i.quality.objects import KINDS, ObjectFinding, flags, share_with_limits
from feda3i.report import html
from feda3i.report.axes import Axis, room
from feda3i.report.html import Cell, Column, Html, Point, Section, Shape, Tone

VERDICTS: dict[str, tuple[Shape, int, Tone]] = {
    "larger": ("up", 0, "warn"),
    "smaller": ("down", 1, "warn"),
    "slightly": ("circle", 3, "plain"),
    "about the same": ("circle", 2, "good"),
    "cannot tell": ("cross", 6, "plain"),
}
"""Shape and colour of each verdict in the plot, and its tone in the table."""
ALONE: dict[str, tuple[Shape, str, float]] = {
    "edges": ("cross", "by the edges in its images", -5.0),
    "contour": ("circle", "by a model's contours", 5.0),
}
"""Shape of each estimator's own answer, its name, and where it stands in a site's row."""
WIDTH, LINE, LEFT, BOTTOM, MOST, LONGEST = 620, 26, 165, 46, 80, 18


def page_of(audit: Audit) -> str:
    """Return the page as text; it names sites, and no case."""
    several = len(audit.overall) > 1
    sections = []
    for number, said in enumerate(audit.overall, 1):
        mine = audit.of_class(said.class_name)
        title = f"Who draws how: {said.class_name}" if several else "Who draws how"
        body = html.join([_plot(audit, mine), _table(audit, mine)])
        sections.append(Section(f"class-{number}", title, body, _sentence(said.said)))
    if any(one.share is not None for one in audit.objects):
        title, intro = "Objects missed, made up or swapped", "; ".join(flags(audit.objects))
        sections.append(Section("objects", title, _objects(audit), _sentence(intro)))
    reading = html.join([html.block("paragraph", one) for one in _reading(audit)])
    sections.append(Section("read", "How to read this", reading))
    top = [
        _cards(audit),
        html.notice("warn", "Before you believe it", audit.notes),
        html.notice("plain", "Cannot tell", why_not(audit)),
    ]
    return html.page(
        f"{audit.title}: audit of annotation quality",
        sections,
        subtitle=f"Judged by {audit.how}.",
        top=html.join(top),
        filter_sites=True,
    )


def _cards(audit: Audit) -> Html:
    counts = Counter(one.verdict for one in audit.findings)
    what = "sites" if len(audit.overall) == 1 else "sites and classes"
    zero = _zero(audit)
    return html.cards(
        [
            ("draw larger", counts["larger"], f"{what}, than {zero}"),
            ("draw smaller", counts["smaller"], f"{what}, than {zero}"),
            ("differ slightly", counts["slightly"], "surely, but by too little to matter"),
            ("about the same", counts["about the same"], f"as {zero}"),
            (
                "cannot tell",
                counts["cannot tell"],
                "reasons below" if counts["cannot tell"] else "",
            ),
        ]
    )


def _zero(audit: Audit) -> str:
    return "the trusted masks" if audit.is_absolute else "the others"


def _plot(audit: Audit, findings: Sequence[SiteFinding]) -> Html:
    judged = [one for one in findings if one.relative is not None]
    rows = judged[:MOST]
    if not rows:
        return Html("")
    values = [v for one in rows for v in (one.low, one.high, 0.0) if v is not None]
    values += [v[0] for one in rows for v in one.by_estimator.values() if v is not None]
    height = LINE * len(rows) + BOTTOM + 10
    true = _true_beside(audit)
    drawing = html.block(
        "intervals",
        {
            "title": "Sites by how large they draw",
            "about": "; ".join(f"{one.site}: {one.reason}" for one in rows[:3]),
            "width": WIDTH,
            "height": height,
            "bottom": height - BOTTOM,
            "label": f"smaller than {_zero(audit)}   -   {sign_of(audit.unit)}   -   larger",
            "x": Axis(room(values), (LEFT, WIDTH - 16)),
            "rows": [_row(one, 16 + LINE * k, true.get(one.site)) for k, one in enumerate(rows)],
        },
    )
    keys = [
        (verdict, html.dot_key(shape, series))
        for verdict, (shape, series, _) in VERDICTS.items()
        if any(one.verdict == verdict for one in rows)
    ]
    if any(_marks(one, 0.0) for one in rows):
        keys += [(said, html.dot_key(shape, 6)) for shape, said, _ in ALONE.values()]
    if audit.true:
        keys.append(("the truth, which only simulations know", html.dot_key("circle", 6, "none")))
    more = f" {len(judged) - MOST} more sites are in the table." if len(judged) > MOST else ""
    caption = (
        f"How far each site draws outside (right) or inside (left) of {_zero(audit)}, in "
        f"{audit.unit}, with 95 % intervals; small marks are what each estimator says alone.{more}"
    )
    return html.figure(html.join([drawing, html.legend(keys)]), caption)


def _row(one: SiteFinding, y: float, true: float | None) -> dict[str, object]:
    """Return the row of a site as the template takes it."""
    shape, series, _ = VERDICTS[one.verdict]
    return {
        "y": y,
        "site": one.site,
        "name": html.short(one.site, LONGEST),
        "low": one.low,
        "high": one.high,
        "true": true,
        "alone": _marks(one, y),
        "point": Point(one.relative or 0.0, 0.0, f"{one.site}: {one.reason}", shape, series),
    }


def _marks(one: SiteFinding, y: float) -> list[dict[str, object]]:
    """Return what each estimator says, if both do: alone it would be the site's own mark."""
    told = {name: alone(one, name) for name in ALONE}
    if None in told.values():
        return []
    return [{"y": y + ALONE[key][2], "x": x, "shape": ALONE[key][0]} for key, x in told.items()]


def _true_beside(audit: Audit) -> dict[str, float]:
    """Return the true offsets from the audit's zero, in simulations."""
    middle = 0.0 if audit.is_absolute or not audit.true else np.mean(list(audit.true.values()))
    return {site: float(value - middle) for site, value in audit.true.items()}


def _table(audit: Audit, findings: Sequence[SiteFinding]) -> Html:
    unit, true = sign_of(audit.unit), _true_beside(audit)
    columns = [
        Column("site"),
        Column("verdict"),
        Column(f"by, {unit}", "number", 1, f"offset from {_zero(audit)}, in {audit.unit}"),
        Column("95 % interval"),
        *(Column(f"{ALONE[name][1]}, {unit}", "number", 1) for name in ESTIMATORS),
        Column("sure", "number", 0, "probability that the site draws on this side of zero at all"),
        Column("cases", "number"),
        *([Column(f"true, {unit}", "number", 1, "beside zero; simulation")] if true else []),
    ]
    rows: list[list[object]] = []
    for one in findings:
        badge = html.badge(VERDICTS[one.verdict][2], one.verdict)
        stays = "white-space:nowrap"
        sure = "-" if one.sure is None else f"{100 * one.sure:.0f} %"
        rows.append(
            [
                Cell(html.name(one.site), one.site, stays if len(one.site) <= LONGEST else None),
                Cell(html.join([badge, f" {one.reason}"]), one.verdict),
                Cell(shown(one.relative), one.relative),
                Cell(interval(one), one.low, stays),
                *(Cell(shown(alone(one, name)), alone(one, name)) for name in ESTIMATORS),
                Cell(sure, one.sure),
                one.cases,
                *([true.get(one.site)] if true else []),
            ]
        )
    caption = "Sites from the smallest to the largest drawer"
    return html.table(caption, columns, rows, sites=[one.site for one in findings])


def _objects(audit: Audit) -> Html:
    """Return the table of noise beyond the contour."""
    found = {(one.site, one.kind): one for one in audit.objects}
    sites = list(dict.fromkeys(one.site for one in audit.objects))
    kinds = [kind for kind in KINDS if kind != "swapped" or len(audit.overall) > 1]
    heads = [Column(kind, "number", hint=KINDS[kind].format("this share")) for kind in kinds]
    return html.table(
        "Objects that a site misses, makes up or swaps, and cases that it leaves empty",
        [Column("site"), *heads],
        [[Cell(html.name(s), s), *(_share(found[s, kind]) for kind in kinds)] for s in sites],
        sites=sites,
    )


def _share(one: ObjectFinding) -> Cell:
    if one.share is None or one.low is None or one.high is None:
        return Cell("-")
    words = share_with_limits(one.share, one.low, one.high)
    marked = html.badge("warn", words) if one.is_flagged else words
    return Cell(marked, one.share, "white-space:nowrap")


def _reading(audit: Audit) -> list[str]:
    return [
        *audit.read,
        f"Distances are in {audit.unit}. A site draws larger or smaller if its interval lies on "
        f"one side of zero and the difference matters, slightly if it does not; about the same if "
        f"the interval holds zero and is short; else the audit cannot tell, and says why. "
        f"{_sentence(MATTERS)} Sites are told apart only where a test over all of them says that "
        f"they differ.",
        "Which cases are worth a second look is written for each site alone and is not in this "
        "file.",
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
