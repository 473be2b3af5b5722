"""Figures by site: who gains, who loses, who is worst."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from feda3i.report import html
from feda3i.report.compare import REFERENCES, Group, part, site_dice
from feda3i.report.html import Cell, Column, Html, Point, Section

SHAPES: tuple[html.Shape, ...] = ("circle", "up", "down", "circle")
MOST = 60
"""Sites that a plot can show one by one; the table has all of them."""


def sites(groups: Sequence[Group]) -> Section | None:
    """Return the Dice of every site under every method; nothing if no run has it."""
    body: list[tuple[str, Html]] = []
    where = ""
    for setting in dict.fromkeys(group.setting for group in groups):
        here = [group for group in groups if group.setting == setting]
        means = {group.label: _means(group) for group in here}
        found = {label: dice for label, (dice, _) in means.items() if dice}
        if not found:
            continue
        where = where or next(cases for dice, cases in means.values() if dice)
        body.append((setting, _figure(found, here)))
    if not body:
        return None
    intro = f"Dice of the last model on the {where}, mean over seeds."
    return Section("sites", "Site by site", part("by_setting", body), intro, "Sites")


def _means(group: Group) -> tuple[dict[str, float], str]:
    found: dict[str, list[float]] = {}
    where = ""
    for run in group.counted:
        dice, where = site_dice(run)
        for site, value in dice.items():
            found.setdefault(site, []).append(value)
    return {site: statistics.fmean(values) for site, values in sorted(found.items())}, where


def _figure(found: Mapping[str, Mapping[str, float]], groups: Sequence[Group]) -> Html:
    names = sorted({site for means in found.values() for site in means})
    base = next((g.label for g in groups if g.method == "fedavg" and g.label in found), None)
    leading = base or next(iter(found))
    order = sorted(names, key=lambda site: found[leading].get(site, 2.0))
    table = _table(found, order, base, {g.label for g in groups if g.method in REFERENCES})
    if len(order) < 2:
        return table
    points = []
    for j, (label, means) in enumerate(found.items()):
        for k, site in enumerate(order[:MOST]):
            if site in means:
                tip = f"{site}: {label} {means[site]:.3f}"
                points.append(Point(k + 1.0, means[site], tip, SHAPES[j % 4], j, site=site))
    worst = {label: min(means, key=lambda s: means[s]) for label, means in found.items()}
    about = "; ".join(
        f"{label}: worst {site} {found[label][site]:.3f}, "
        f"spread {statistics.pstdev(found[label].values()):.3f}"
        for label, site in worst.items()
    )
    chart = html.plane(
        "Dice by site",
        about,
        points,
        x_label=f"sites, from the worst under {leading} to the best",
        y_label="Dice",
        is_wide=True,
    )
    keys = [(label, html.dot_key(SHAPES[j % 4], j)) for j, label in enumerate(found)]
    more = f" The plot shows the {MOST} worst of {len(order)} sites." if len(order) > MOST else ""
    return part("plot_and_table", chart, keys, f"{about}.{more}", table)


def _table(
    found: Mapping[str, Mapping[str, float]],
    order: Sequence[str],
    base: str | None,
    references: set[str],
) -> Html:
    gains = [label for label in found if base and label != base and label not in references]
    hint = "points of Dice over FedAvg"
    columns = [Column("site"), *(Column(label, "number") for label in found)]
    columns += [Column(f"gain of {label}", "number", 1, hint) for label in gains]
    rows: list[list[object]] = []
    for site in order:
        row: list[object] = [html.name(site), *(found[label].get(site) for label in found)]
        row += [_gain(found[label].get(site), found[str(base)].get(site)) for label in gains]
        rows.append(row)
    return html.table("Dice by site, lowest first", columns, rows, sites=order)


def _gain(mine: float | None, theirs: float | None) -> Cell:
    if mine is None or theirs is None:
        return Cell("-")
    points = 100 * (mine - theirs)
    return Cell(f"{points:+.1f}", points, class_="up" if points > 0 else "down")
