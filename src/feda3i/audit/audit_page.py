"""The audit as one HTML file: a plot of sites with intervals, the table, how to read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from feda3i.audit.findings import Audit, SiteFinding
from feda3i.audit.writing import by_size, matters, unit_sign, why_not
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
    for number, said in enumerate(audit.overall):
        mine = by_size([one for one in audit.findings if one.class_name == said.class_name])
        title = f"Who draws how: {said.class_name}" if several else "Who draws how"
        body = html.join([_plot(audit, mine), _table(audit, mine)])
        sections.append(Section(f"class-{number + 1}", title, body, _sentence(said.said)))
    if any(one.share is not None for one in audit.objects):
        title, intro = "Objects missed, made up or swapped", "; ".join(flags(audit.objects))
        sections.append(Section("objects", title, _objects(audit), _sentence(intro)))
    sections.append(Section("read", "How to read this", _reading(audit)))
    top = html.join(
        [
            _cards(audit),
            html.notice("warn", "Before you believe it", audit.notes),
            html.notice("plain", "Cannot tell", why_not(audit.findings, several)),
        ]
    )
    return html.page(
        f"{audit.title}: audit of annotation quality",
        sections,
        subtitle=f"Judged by {audit.how}.",
        top=top,
        filter_sites=True,
    )


def _cards(audit: Audit) -> Html:
    counts = Counter(one.verdict for one in audit.findings)
    what = "sites" if len(audit.overall) == 1 else "sites and classes"
    zero = _zero(audit)
    items: list[tuple[str, object, object]] = [
        ("draw larger", counts["larger"], f"{what}, than {zero}"),
        ("draw smaller", counts["smaller"], f"{what}, than {zero}"),
        ("differ slightly", counts["slightly"], "surely, but by too little to matter"),
        ("about the same", counts["about the same"], f"as {zero}"),
        ("cannot tell", counts["cannot tell"], "reasons below" if counts["cannot tell"] else ""),
    ]
    return html.cards(items)


def _zero(audit: Audit) -> str:
    return "the trusted masks" if audit.is_absolute else "the others"


def _plot(audit: Audit, findings: Sequence[SiteFinding]) -> Html:
    judged = [one for one in findings if one.relative is not None]
    shown = judged[:MOST]
    if not shown:
        return Html("")
    values = [v for one in shown for v in (one.low, one.high, 0.0) if v is not None]
    values += [v[0] for one in shown for v in one.by_estimator.values() if v is not None]
    height = LINE * len(shown) + BOTTOM + 10
    x = Axis(room(values), (LEFT, WIDTH - 16))
    true = _true_beside(audit)
    drawing = html.block(
        "intervals",
        {
            "title": "Sites by how large they draw",
            "about": "; ".join(f"{one.site}: {one.reason}" for one in shown[:3]),
            "width": WIDTH,
            "height": height,
            "bottom": height - BOTTOM,
            "margin": audit.margin or 0.0,
            "label": f"smaller than {_zero(audit)}   -   {unit_sign(audit.unit)}   -   larger",
            "x": x,
            "rows": [_row(one, 16 + LINE * k, true.get(one.site)) for k, one in enumerate(shown)],
        },
    )
    keys = [
        (verdict, html.dot_key(shape, series))
        for verdict, (shape, series, _) in VERDICTS.items()
        if any(one.verdict == verdict for one in shown)
    ]
    both = [one.by_estimator for one in shown if all(map(one.by_estimator.get, ALONE))]
    used = {name for name in ALONE if both}
    keys += [
        (said, html.dot_key(shape, 6)) for name, (shape, said, _) in ALONE.items() if name in used
    ]
    if audit.true:
        keys.append(("the truth, which only simulations know", html.dot_key("circle", 6, "none")))
    more = len(judged) - len(shown)
    caption = (
        f"How far each site draws outside (right) or inside (left) of {_zero(audit)}, in "
        f"{audit.unit}, with 95 % intervals; small marks are what each estimator says alone."
        f"{f' {more} more sites are in the table.' if more else ''}"
    )
    return html.figure(html.join([drawing, html.legend(keys)]), caption)


def _row(one: SiteFinding, y: float, true: float | None) -> dict[str, object]:
    """Return the row of a site as the template takes it."""
    low, middle, high = (0.0 if v is None else v for v in (one.low, one.relative, one.high))
    shape, series, _ = VERDICTS[one.verdict]
    point = Point(middle, 0.0, f"{one.site}: {one.reason}", shape, series)
    name = html.short(one.site, LONGEST)
    alone = [
        {"y": y + ALONE[key][2], "x": found[0], "shape": ALONE[key][0]}
        for key, found in one.by_estimator.items()
        if found is not None
    ]
    return {
        "y": y,
        "site": one.site,
        "name": name,
        "low": low,
        "high": high,
        "true": true,
        "alone": alone if len(alone) > 1 else [],
        "point": point,
    }


def _true_beside(audit: Audit) -> dict[str, float]:
    """Return the true offsets from the audit's zero, in simulations."""
    if audit.is_absolute:
        return audit.true
    if len(audit.true) < 2:
        return {}
    middle = float(np.mean(list(audit.true.values())))
    return {site: value - middle for site, value in audit.true.items()}


def _table(audit: Audit, findings: Sequence[SiteFinding]) -> Html:
    unit = unit_sign(audit.unit)
    true = _true_beside(audit)
    columns = [
        Column("site"),
        Column("verdict"),
        Column(f"by, {unit}", "number", 1, f"offset from {_zero(audit)}, in {audit.unit}"),
        Column("95 % interval"),
        *(Column(f"{said}, {unit}", "number", 1) for _, said, _ in ALONE.values()),
        Column("sure", "number", 0, "probability that the site draws on this side of zero at all"),
        Column(f"wobble, {unit}", "number", 1, "how much the gap varies along a contour"),
        Column(f"spread, {unit}", "number", 1, "how much the offset varies from case to case"),
        Column("cases", "number"),
        *([Column(f"true, {unit}", "number", 1, "beside zero; simulation")] if true else []),
    ]
    rows: list[list[object]] = []
    for one in findings:
        ends = "-" if one.low is None else f"{one.low:+.1f} to {one.high:+.1f}"
        stays = "white-space:nowrap" if len(one.site) <= LONGEST else None
        sure = Cell("-") if one.sure is None else Cell(f"{100 * one.sure:.0f} %", one.sure)
        row: list[object] = [
            Cell(html.name(one.site), one.site, style=stays),
            Cell(
                html.join([html.badge(VERDICTS[one.verdict][2], one.verdict), f" {one.reason}"]),
                one.verdict,
            ),
            _signed(one.relative, "-"),
            Cell(ends, one.low, style="white-space:nowrap"),
            *(_signed((one.by_estimator.get(name) or (None,))[0], "-") for name in ALONE),
            sure,
            one.wobble,
            one.spread,
            one.cases,
            *([true.get(one.site)] if true else []),
        ]
        rows.append(row)
    return html.table(
        "Sites from the smallest to the largest drawer",
        columns,
        rows,
        sites=[one.site for one in findings],
    )


def _objects(audit: Audit) -> Html:
    """Return the table of noise beyond the contour."""
    found = {(one.site, one.kind): one for one in audit.objects}
    sites = list(dict.fromkeys(one.site for one in audit.objects))
    kinds = [kind for kind in KINDS if kind != "swapped" or len(audit.overall) > 1]
    return html.table(
        "Objects that a site misses, makes up or swaps, and cases that it leaves empty",
        [Column("site"), *(_column(kind) for kind in kinds)],
        [
            [Cell(html.name(site), site), *(_share(found[site, kind]) for kind in kinds)]
            for site in sites
        ],
        sites=sites,
    )


def _column(kind: str) -> Column:
    return Column(kind, "number", hint=KINDS[kind].format("this share"))


def _share(one: ObjectFinding) -> Cell:
    if one.share is None or one.low is None or one.high is None:
        return Cell("-")
    words = share_with_limits(one.share, one.low, one.high)
    shown = html.badge("warn", words) if one.is_flagged else words
    return Cell(shown, one.share, style="white-space:nowrap")


def _signed(value: float | None, unknown: str) -> Cell:
    return Cell(unknown) if value is None else Cell(f"{value:+.1f}", value)


def _reading(audit: Audit) -> Html:
    words = [
        *audit.read,
        f"Distances are in {audit.unit}. A site draws larger or smaller if its interval lies on "
        f"one side of zero and the difference matters, slightly if it does not; about the same if "
        f"the interval holds zero and is short; else the audit cannot tell, and says why. "
        f"{_sentence(matters(audit))} Sites are told apart only where a test over all of them "
        f"says that they differ.",
        "Which cases are worth a second look is written for each site alone and is not in this "
        "file.",
    ]
    return html.join([html.block("paragraph", one) for one in words])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
