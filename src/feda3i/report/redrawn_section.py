"""How far every site drew outside the border, and by how much its contours were moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from feda3i.report import html
from feda3i.report.compare import Group, part, seed_by_seed
from feda3i.report.html import Cell, Column, Html, Point, Section
from feda3i.report.run_facts import Offset, RunFacts

MOST = 60
"""Sites that a plot can show one by one; the table has all of them."""


def redrawn_section(groups: Sequence[Group]) -> Section | None:
    """Return offsets before and after redrawing; nothing if no run redrew masks."""
    body = [
        seed_by_seed(group, redrawn, _classes)
        for group in groups
        if (redrawn := [run for run in group.counted if run.offsets])
    ]
    if not body:
        return None
    return Section(
        "redrawn",
        "Masks redrawn",
        html.join(body),
        "Pixels by which each site's contours lie outside the border that its images show: as they "
        "were drawn, and as they were trained on. The given masks stay as they are. Where sites "
        "train on patches, pixels are at 256 of each case's longest side.",
        "Redrawn",
    )


def _classes(run: RunFacts) -> Html:
    count = max(len(rows) for rows in run.offsets.values())
    return html.join([_class(run, k) for k in range(count)])


def _class(run: RunFacts, k: int) -> Html:
    found = {site: rows[k] for site, rows in run.offsets.items() if k < len(rows)}
    known = {site: row for site, row in found.items() if row[2] > 0}
    order = sorted(known, key=lambda site: known[site][0])
    after = {site: known[site][0] + _moved(run, site, k) for site in order}
    names = run.classes
    title = f"Offsets of {names[k] if k < len(names) else f'class {k + 1}'}"
    table = _table(run, found, after, k, title)
    if len(order) < 2:
        return table
    points = []
    for place, site in enumerate(order[:MOST], start=1):
        drawn, error = known[site][:2]
        tip = f"{site}: drawn {drawn:+.1f} ± {error:.1f} px, trained on {after[site]:+.1f} px"
        points.append(Point(place, drawn, tip, "circle", 1, site=site))
        points.append(Point(place, after[site], tip, "up", 0, site=site))
    moved = sum(_moved(run, site, k) != 0 for site in found)
    about = (
        f"{moved} of {len(found)} sites moved their contours, {len(found) - len(known)} cannot "
        f"tell; drawn {known[order[0]][0]:+.1f} to {known[order[-1]][0]:+.1f} px, trained on "
        f"{min(after.values()):+.1f} to {max(after.values()):+.1f} px"
    )
    chart = html.plane(
        title,
        about,
        points,
        x_label="sites, from those who draw smallest to those who draw largest",
        y_label="px outside the border",
        is_wide=True,
    )
    keys = [("as drawn", html.dot_key("circle", 1)), ("as trained on", html.dot_key("up", 0))]
    return part("plot_and_table", chart, keys, f"{about}.", table)


def _table(
    run: RunFacts, found: Mapping[str, Offset], after: dict[str, float], k: int, title: str
) -> Html:
    mu = {} if run.is_patched else run.mu  # true offsets are in pixels of the cases
    columns = [Column("site"), *([Column("true mu, px", "number", 1)] if mu else [])]
    columns += [
        Column("drawn, px", "number", 1),
        Column("standard error, px", "number", 1),
        Column("cases", "number"),
        Column("moved by, px", "number", 1, "outwards; negative: inwards"),
        Column("trained on, px", "number", 1),
    ]
    rows: list[list[object]] = []
    sites = [*after, *sorted(set(found) - set(after))]
    for site in sites:
        head: list[object] = [html.name(site), *([mu.get(site)] if mu else [])]
        if site in after:
            offset, error, cases = found[site]
            rows.append([*head, offset, error, int(cases), _moved(run, site, k), after[site]])
        else:
            rows.append([*head, Cell("cannot tell"), None, 0, 0.0, None])
    caption = f"{title}: pixels outside the border in the images, before and after"
    return html.table(caption, columns, rows, sites=sites)


def _moved(run: RunFacts, site: str, k: int) -> float:
    moved = run.moved.get(site, [])
    return moved[k] if k < len(moved) else 0.0
