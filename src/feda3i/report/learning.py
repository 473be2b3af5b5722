"""Learning curves: test Dice and training loss over the rounds, a band over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from feda3i.report import html
from feda3i.report.compare import Group, part
from feda3i.report.html import Column, Html, Section, Series
from feda3i.report.run_facts import RoundFacts


def learning(groups: Sequence[Group]) -> Section:
    """Return the curves of every setting."""
    body = []
    for setting in dict.fromkeys(group.setting for group in groups):
        here = [group for group in groups if group.setting == setting]
        plots = [
            _plot(here, "test Dice", lambda one: one.dice),
            _plot(here, "training loss", lambda one: one.loss),
        ]
        body.append((setting, part("pair", plots)))
    intro = "Test Dice and mean training loss after every round."
    if any(len(group.counted) > 1 for group in groups):
        intro += " Lines are means over seeds, bands reach from the lowest to the highest."
    return Section("learning", "Learning curves", part("by_setting", body), intro, "Curves")


def _plot(groups: Sequence[Group], what: str, read: Callable[[RoundFacts], float | None]) -> Html:
    found = [(group.label, _series(group, read)) for group in groups]
    series = [one for _, one in found if one.x]
    if not series:
        return html.text(f"No round with a {what} is in the log.")
    last = ", ".join(f"{label} {one.y[-1]:.3f}" for label, one in found if one.x)
    about = f"Over {int(max(one.x[-1] for one in series))} rounds; at the end: {last}."
    chart = html.lines(
        f"{what[0].upper()}{what[1:]} over the rounds",
        about,
        series,
        x_label="round",
        y_label=what,
        marks=_surveys(groups),
        digits=4,
    )
    return html.figure(chart, about, _table(what, series))


def _series(group: Group, read: Callable[[RoundFacts], float | None]) -> Series:
    """Return the mean over seeds in the rounds that every seed has, and the band around it."""
    found = [
        {one.round: value for one in run.rounds if (value := read(one)) is not None}
        for run in group.counted
    ]
    found = [one for one in found if one]
    rounds = sorted(set.intersection(*map(set, found))) if found else []
    columns = [[one[r] for one in found] for r in rounds]
    many = len(found) > 1
    name = f"{group.label}, {len(found)} seeds" if many else group.label
    return Series(
        name,
        [float(r) for r in rounds],
        [statistics.fmean(c) for c in columns],
        [min(c) for c in columns] if many else (),
        [max(c) for c in columns] if many else (),
    )


def _surveys(groups: Sequence[Group]) -> list[tuple[float, str]]:
    rounds = {number for g in groups for run in g.counted for number, _ in run.ratings}
    return [
        (number - 0.5, "survey" if k == 0 else "") for k, number in enumerate(sorted(rounds)[:6])
    ]


def _table(what: str, series: Sequence[Series]) -> Html:
    columns = [Column("round", "number")]
    for one in series:
        columns.append(Column(one.name, "number", 4))
        if one.low:
            columns += [Column("lowest", "number", 4), Column("highest", "number", 4)]
    known = []
    for one in series:
        parts = [one.y, one.low, one.high] if one.low else [one.y]
        known.append(dict(zip(one.x, zip(*parts, strict=True), strict=True)))
    rows: list[list[object]] = []
    for x in sorted({x for one in series for x in one.x}):
        row: list[object] = [int(x)]
        for one, values in zip(series, known, strict=True):
            row += values.get(x, (None,) * (3 if one.low else 1))
        rows.append(row)
    return html.table(f"{what} by round", columns, rows)
