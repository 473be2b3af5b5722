"""The figures of boards: a sweep over a key, and FedA3I's gain against the bias it takes away."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from feda3i.bench.board import Board
from feda3i.bench.tables import CEILING, FLOOR, surveyed_runs
from feda3i.files import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REFERENCES = (*FLOOR.values(), *CEILING.values())
"""Rows that mark where others begin and where they could end."""
# Okabe and Ito's colours: distinct for readers who do not tell red from green.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#6f6f6f")
AXES = {
    "feda3i.r": "r, the weight of the group that draws larger",
    "feda3i.t1": "T1, rounds of warm-up before the survey",
    "data.sites": "number of sites",
    "data.cases": "cases per site",
    "data.softness": "softness of borders (1: as usual)",
}


def is_drawn(board: Board) -> bool:
    """Return whether a board is a sweep with more to see than the reference rows."""
    return board.is_sweep and any(row not in REFERENCES for _, row in sweep_lines(board))


def draw_sweep(board: Board, folder: Path, name: str = "") -> list[Path]:
    """Draw the last round's Dice over the value that varies, one line per setting and row.

    Rows that do not depend on the value (FedAvg in a sweep of r) are level lines.
    """
    figure = _figure()
    axes = figure.subplots()
    key = next(point[0][0] for _, point in board.points.values())
    palette = dict(zip(board.settings, cycle(COLOURS), strict=False))
    for (setting, row), line in sweep_lines(board).items():
        x, mean, std = np.array(line).T
        is_level = float(np.ptp(mean)) == 0.0 and row in REFERENCES
        style, marker = ("--", "") if is_level else ("-", ".")
        label, colour = f"{setting}, {board.named(row)}", palette[setting]
        axes.plot(x, mean, label=label, marker=marker, color=colour, linestyle=style)
        axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel=AXES.get(key, key), ylabel="test Dice, last round")
    axes.grid(alpha=0.25)
    most = max(len(board.common_seeds(setting)) for setting in board.settings)
    band = "one seed" if most == 1 else "band: standard deviation over seeds"
    axes.legend(frameon=False, fontsize=8, title=band, title_fontsize=8)
    return _save(figure, folder / (name or board.name))


def sweep_lines(board: Board) -> dict[tuple[str, str], list[tuple[float, float, float]]]:
    """Return value, mean and standard deviation by setting and row, where there are two or more.

    They are means over the seeds that all points of a setting have.
    """
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for column, (setting, point) in board.points.items():
        for row in board.rows:
            score = board.score(column, row, seeds=board.common_seeds(setting))
            if score is not None:
                place = (float(point[0][1]), score.mean, score.std)
                found.setdefault((setting, row), []).append(place)
    return {name: sorted(line) for name, line in found.items() if len(line) > 1}


def draw_gain(boards: Iterable[Board], folder: Path, name: str = "gain") -> list[Path]:
    """Draw what FedA3I gains over FedAvg against the bias that its weights take away."""
    figure = _figure()
    axes = figure.subplots()
    groups: dict[str, list[tuple[float, float]]] = {}
    for setting, taken, gain in gains(boards):
        groups.setdefault(setting, []).append((taken, gain))
    for (setting, values), colour in zip(groups.items(), cycle(COLOURS), strict=False):
        x, y = np.array(values).T
        axes.scatter(x, y, s=22, color=colour, label=setting, alpha=0.8, linewidths=0)
    axes.axhline(0, color=COLOURS[-1], linewidth=0.8)
    axes.axvline(0, color=COLOURS[-1], linewidth=0.8)
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
                before, after = map(result.fact, ("residual_bias_fedavg", "residual_bias"))
                taken = abs(before or 0.0) - abs(after or 0.0)
                found.setdefault(id(result), (board.points[column][0], taken, gain))
    return list(found.values())


def _figure() -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(6.4, 4.2), layout="constrained")


def _save(figure: Figure, stem: Path) -> list[Path]:
    made = [stem.with_name(f"{stem.name}{ending}") for ending in (".svg", ".png")]
    for path in made:
        write_figure(path, figure, dpi=130)
    return made
