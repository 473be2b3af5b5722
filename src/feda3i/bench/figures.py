"""The figures of a board: a sweep with its band over seeds, and gain against residual bias."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from feda3i.bench.board import Board
from feda3i.bench.paper import loss
from feda3i.bench.tables import CEILING, FLOOR, named
from feda3i.report.canvas import GREY, colours, pyplot, save

Line = list[tuple[float, float, float]]
"""Value, mean and standard deviation along a sweep."""
ENDINGS = (".svg", ".png")
AXES = {
    "feda3i.r": "r, the say of the group that draws larger",
    "feda3i.t1": "T1, rounds of warm-up before the survey",
    "data.sites": "number of sites",
    "data.cases": "cases per site",
    "data.softness": "softness of borders (1: as usual)",
}


def draw_sweep(board: Board, folder: Path, name: str = "") -> list[Path]:
    """Draw the last round's Dice over the value that varies, one line per setting and row.

    Rows that do not depend on the value (FedAvg in a sweep of r) are level lines.
    """
    figure, axes = pyplot().subplots(figsize=(6.4, 4.2), layout="constrained")
    key = next(point[0][0] for _, point in board.points.values())
    found = sweep_lines(board)
    settings = list(dict.fromkeys(setting for setting, _ in board.points.values()))
    palette = dict(zip(settings, colours(len(settings)), strict=True))
    for (setting, row), line in found.items():
        _draw_line(axes, line, f"{setting}, {named(board, row)}", palette[setting], row)
    axes.set(xlabel=AXES.get(key, key), ylabel="test Dice, last round")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8, title="band: standard deviation over seeds")
    return _save(figure, folder / (name or board.name))


def is_drawn(board: Board) -> bool:
    """Return whether a sweep has a line besides those of the reference rows."""
    references = (*FLOOR.values(), CEILING)
    return board.is_sweep and any(row not in references for _, row in sweep_lines(board))


def sweep_lines(board: Board) -> dict[tuple[str, str], Line]:
    """Return the lines of a sweep by setting and row, where there are two points or more."""
    settings = dict.fromkeys(setting for setting, _ in board.points.values())
    found = {
        (setting, row): _line(board, setting, row) for setting in settings for row in board.rows
    }
    return {name: line for name, line in found.items() if len(line) > 1}


def _line(board: Board, setting: str, row: str) -> Line:
    """Return ``(value, mean, standard deviation)`` along a sweep."""
    line = []
    for column, (name, point) in board.points.items():
        score = board.score(column, row)
        if name == setting and score is not None:
            line.append((float(point[0][1]), score.mean, score.std))
    return sorted(line)


def _draw_line(axes: Any, line: Line, name: str, colour: str, row: str) -> None:
    x, mean, std = (np.array(part) for part in zip(*line, strict=True))
    is_level = float(np.ptp(mean)) == 0.0 and row in (*FLOOR.values(), CEILING)
    style = {"color": colour, "linestyle": "--" if is_level else "-"}
    axes.plot(x, mean, label=name, marker="" if is_level else ".", **style)
    axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)


def draw_gain(boards: Iterable[Board], folder: Path, name: str = "gain") -> list[Path]:
    """Draw what FedA3I gains over FedAvg against the bias that its weights take away."""
    figure, axes = pyplot().subplots(figsize=(6.4, 4.2), layout="constrained")
    groups: dict[str, list[tuple[float, float]]] = {}
    for label, x, y in gains(boards):
        groups.setdefault(label, []).append((x, y))
    for (label, values), colour in zip(groups.items(), colours(len(groups)), strict=True):
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
        for column in board.columns:
            setting = board.points.get(column, (column, ()))[0]
            for row in board.rows:
                for seed, result in board.results(column, row).items():
                    plain = board.results(column, FLOOR[loss(row)]).get(seed)
                    if plain is None or "residual_bias" not in result.why:
                        continue
                    before, after = result.why["residual_bias_fedavg"], result.why["residual_bias"]
                    gain = 100 * (result.last() - plain.last())
                    found.setdefault(id(result), (setting, abs(before) - abs(after), gain))
    return list(found.values())


def _save(figure: Any, stem: Path) -> list[Path]:
    made = [stem.with_name(f"{stem.name}{ending}") for ending in ENDINGS]
    save(figure, made)
    return made
