"""All boards on one HTML page: tables that sort, sweeps as lines, gain against bias as a plane."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from feda3i.bench.board import Board
from feda3i.bench.figures import AXES, gains, is_drawn, sweep_lines
from feda3i.bench.tables import missing_lines, named, tables_of
from feda3i.bench.text_table import Table
from feda3i.report import html
from feda3i.report.html import Cell, Column, Html, Point, Section, Series


def bench_page(boards: Sequence[Board]) -> str:
    """Return the page as text of one file."""
    sections = [_section(board, k) for k, board in enumerate(boards)]
    if gains(boards):
        sections.append(Section("gain", "When it helps", _gain(boards), menu="gain"))
    count = len({id(r) for b in boards for found in b.found.values() for r in found.values()})
    return html.page("Comparison of methods", sections, subtitle=f"{count} runs")


def _section(board: Board, number: int) -> Section:
    data = " and ".join(board.data)
    parts = [html.notice("warn", "Not all runs are done", missing_lines(board))]
    if board.is_sweep and is_drawn(board):
        parts.append(_sweep(board))
    parts += [_table(one) for one in tables_of(board)]
    return Section(f"board-{number}", board.title, html.join(parts), intro=data, menu=board.name)


def _table(one: Table) -> Html:
    """Return a table of text; a column of numbers sorts by them."""
    columns = [Column(title) for title in one.header]
    rows = [[_cell(cell) for cell in row] for row in one.rows]
    note = html.block("paragraph", one.note) if one.note else Html("")
    return html.join([html.table(one.title, columns, rows), note])


def _cell(words: str) -> Cell:
    plain = words.replace("**", "")
    first = re.match(r"[-+]?\d+(\.\d+)?", plain)
    class_ = "best" if plain != words else None
    return Cell(plain, float(first[0]) if first else plain, class_=class_)


def _sweep(board: Board) -> Html:
    found = {f"{s}, {named(board, row)}": line for (s, row), line in sweep_lines(board).items()}
    series = []
    for name, line in found.items():
        x, mean, std = np.array(line).T
        ends = (mean - std).tolist(), (mean + std).tolist()
        series.append(Series(name, x.tolist(), mean.tolist(), *ends))
    key = next(point[0][0] for _, point in board.points.values())
    columns = [Column("line"), *(Column(t, "number", 4) for t in (key, "Dice", "deviation"))]
    rows = [(name, *values) for name, line in found.items() for values in line]
    numbers = html.table("The lines.", columns, rows)
    label = AXES.get(key, key)
    about = "Bands: standard deviation."
    plot = html.lines(board.title, about, series, x_label=label, y_label="Dice")
    words = "Test Dice in the last round; bands: standard deviation."
    return html.block("single", html.figure(plot, words, numbers))


def _gain(boards: Sequence[Board]) -> Html:
    found = gains(boards)
    settings = list(dict.fromkeys(setting for setting, _, _ in found))
    points = []
    for setting, bias, gain in found:
        tip = f"{setting}: {gain:+.1f} points, {bias:+.1f} px"
        points.append(Point(bias, gain, tip, series=settings.index(setting)))
    plot = html.plane(
        "Gain against bias",
        "Each dot is a run of FedA3I against FedAvg with the same seed.",
        points,
        x_label="bias that the weights take away, px at 256",
        y_label="gain over FedAvg, points of Dice",
    )
    keys = html.legend([(name, html.dot_key("circle", k)) for k, name in enumerate(settings)])
    columns = [Column("setting"), *(Column(t, "number", 1) for t in ("bias taken away", "gain"))]
    numbers = html.table("The runs.", columns, found)
    figure = html.figure(html.join([plot, keys]), "Every run of FedA3I.", numbers)
    return html.block("single", figure)
