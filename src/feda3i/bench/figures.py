"""The figures of a board: scores by method, a sweep over seeds, and gain against residual bias."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from feda3i.bench.board import Board
from feda3i.bench.tables import CEILING, FLOOR, surveyed_runs
from feda3i.files import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Line = list[tuple[float, float, float]]
"""Value, mean and standard deviation along a sweep."""
REFERENCES = (*FLOOR.values(), *CEILING.values())
"""Rows that mark where others begin and where they could end."""
ENDINGS = (".svg", ".png")
# Okabe and Ito's colours: distinct for readers who do not tell red from green.
GREEN, ORANGE, BLUE, YELLOW = "#009e73", "#d55e00", "#0072b2", "#e69f00"
GREY = "#6f6f6f"
COLOURS = (ORANGE, BLUE, GREEN, YELLOW, "#cc79a7", "#56b4e9", GREY)
AXES = {
    "feda3i.r": "r, the weight of the group that draws larger",
    "feda3i.t1": "T1, rounds of warm-up before the survey",
    "data.sites": "number of sites",
    "data.cases": "cases per site",
    "data.softness": "softness of borders (1: as usual)",
}


def draw_sweep(board: Board, folder: Path, name: str = "") -> list[Path]:
    """Draw the last round's Dice over the value that varies, one line per setting and row.

    Rows that do not depend on the value (FedAvg in a sweep of r) are level lines.
    """
    figure = _figure(6.4, 4.2)
    axes = figure.subplots()
    key = next(point[0][0] for _, point in board.points.values())
    found = sweep_lines(board)
    settings = list(dict.fromkeys(setting for setting, _ in board.points.values()))
    palette = dict(zip(settings, cycle(COLOURS), strict=False))
    for (setting, row), line in found.items():
        _draw_line(axes, line, f"{setting}, {board.named(row)}", palette[setting], row)
    axes.set(xlabel=AXES.get(key, key), ylabel="test Dice, last round")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8, title=_band_in_words(board), title_fontsize=8)
    return _save(figure, folder / (name or board.name))


def _band_in_words(board: Board) -> str:
    counts = {len(board.common_seeds(setting)) for setting, _ in board.points.values()}
    return "one seed" if max(counts) == 1 else "band: standard deviation over seeds"


def is_drawn(board: Board) -> bool:
    """Return whether there is more to see in a figure than the reference rows."""
    if board.is_sweep:
        return any(row not in REFERENCES for _, row in sweep_lines(board))
    rows = [row for row in board.rows if row not in REFERENCES]
    return any(board.score(column, row) for column in board.columns for row in rows)


def draw_board(board: Board, folder: Path, name: str = "") -> list[Path]:
    """Draw the figure that fits a board: lines for a sweep, dots for a table."""
    return (draw_sweep if board.is_sweep else draw_scores)(board, folder, name)


def draw_scores(board: Board, folder: Path, name: str = "") -> list[Path]:
    """Draw the last round's Dice of every row, one panel per column.

    Small dots are seeds and large ones their mean; lines mark FedAvg and training on clean masks.
    Runs that collapsed have no score.
    """
    rows = [row for row in board.rows if any(board.score(c, row) for c in board.columns)]
    columns = [c for c in board.columns if any(board.score(c, row) for row in rows)]
    figure = _figure(1.6 + 2.2 * len(columns), 1.1 + 0.24 * len(rows))
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        _draw_panel(axes, board, column, rows)
    panels[0].set_yticks(range(len(rows)), [board.named(row) for row in rows], fontsize=8)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    figure.supxlabel("test Dice in the last round, %; lines: FedAvg, clean masks", fontsize=8)
    return _save(figure, folder / (name or board.name))


def _draw_panel(axes: Any, board: Board, column: str, rows: Sequence[str]) -> None:
    lines = {FLOOR["CE"]: "-", CEILING["CE"]: "--"}
    for place, row in enumerate(rows):
        score = board.score(column, row)
        if score is None:
            continue
        runs = [r for r in board.results(column, row).values() if not r.is_collapsed]
        seeds, colour = [100 * run.last() for run in runs], _colour(row)
        axes.plot(seeds, [place] * len(seeds), ".", color=colour, alpha=0.5, markersize=4)
        axes.plot(100 * score.mean, place, "o", color=colour, markersize=6)
        if row in lines:
            style = {"color": GREY, "linewidth": 0.8, "linestyle": lines[row]}
            axes.axvline(100 * score.mean, zorder=0, **style)
    axes.set_title(column, fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", alpha=0.25)


def _colour(row: str) -> str:
    """Return the colour of a row: the references grey, FedA3I's kin orange, others blue."""
    if row in REFERENCES:
        return GREY
    return ORANGE if row.startswith(("feda3i", "redraw")) else BLUE


def sweep_lines(board: Board) -> dict[tuple[str, str], Line]:
    """Return the lines of a sweep by setting and row, where there are two points or more."""
    settings = dict.fromkeys(setting for setting, _ in board.points.values())
    found = {
        (setting, row): _line(board, setting, row) for setting in settings for row in board.rows
    }
    return {name: line for name, line in found.items() if len(line) > 1}


def _line(board: Board, setting: str, row: str) -> Line:
    """Return ``(value, mean, standard deviation)`` along a sweep, of seeds that all points have."""
    line = []
    seeds = board.common_seeds(setting)
    for column, (name, point) in board.points.items():
        score = board.score(column, row, seeds=seeds)
        if name == setting and score is not None:
            line.append((float(point[0][1]), score.mean, score.std))
    return sorted(line)


def _draw_line(axes: Any, line: Line, name: str, colour: str, row: str) -> None:
    x, mean, std = (np.array(part) for part in zip(*line, strict=True))
    is_level = float(np.ptp(mean)) == 0.0 and row in REFERENCES
    style = {"color": colour, "linestyle": "--" if is_level else "-"}
    axes.plot(x, mean, label=name, marker="" if is_level else ".", **style)
    axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)


def draw_gain(boards: Iterable[Board], folder: Path, name: str = "gain") -> list[Path]:
    """Draw what FedA3I gains over FedAvg against the bias that its weights take away."""
    figure = _figure(6.4, 4.2)
    axes = figure.subplots()
    groups: dict[str, list[tuple[float, float]]] = {}
    for label, x, y in gains(boards):
        groups.setdefault(label, []).append((x, y))
    for (label, values), colour in zip(groups.items(), cycle(COLOURS), strict=False):
        x, y = np.array(values).T
        axes.scatter(x, y, s=22, color=colour, label=label, alpha=0.8, linewidths=0)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set(
        xlabel="|bias| of FedAvg's weights - |bias| of FedA3I's, px at 256",
        ylabel="gain over FedAvg, points of Dice",
    )
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    return _save(figure, folder / name)


def gains(boards: Iterable[Board]) -> list[tuple[str, float, float]]:
    """Return ``(setting, bias taken away, gain in points)`` for each run with a survey, once."""
    found: dict[int, tuple[str, float, float]] = {}
    for board in boards:
        for column, _, _, result, gain in surveyed_runs(board):
            if gain is not None:
                setting = board.points.get(column, (column, ()))[0]
                before, after = map(result.fact, ("residual_bias_fedavg", "residual_bias"))
                taken = abs(before or 0.0) - abs(after or 0.0)
                found.setdefault(id(result), (setting, taken, gain))
    return list(found.values())


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, stem: Path) -> list[Path]:
    made = [stem.with_name(f"{stem.name}{ending}") for ending in ENDINGS]
    for path in made:
        write_figure(path, figure, dpi=130)
    return made
