"""All boards on one HTML page: tables that sort, sweeps as lines, gain against bias as a plane."""

from __future__ import annotations

import re
from collections.abc import Sequence

from feda3i.bench.board import Board
from feda3i.bench.figures import AXES, gains, is_drawn, sweep_lines
from feda3i.bench.tables import missing_lines, named, tables_of
from feda3i.bench.text_table import Table
from feda3i.report.html.charts import figure, legend
from feda3i.report.html.lines import Series, lines
from feda3i.report.html.markup import Html, join, tag
from feda3i.report.html.page import Section, notice, page, paragraph
from feda3i.report.html.plane import Point, dot_key, plane
from feda3i.report.html.table import Cell, Column, table


def bench_page(boards: Sequence[Board]) -> str:
    """Return the page as text of one file."""
    sections = [_section(board, k) for k, board in enumerate(boards)]
    if gains(boards):
        sections.append(Section("gain", "When it helps", _gain(boards), menu="gain"))
    count = len({id(r) for b in boards for found in b.found.values() for r in found.values()})
    return page("Comparison of methods", sections, subtitle=f"{count} runs")


def _section(board: Board, number: int) -> Section:
    data = " and ".join(board.data)
    parts = [notice("warn", "Not all runs are done", missing_lines(board))]
    if board.is_sweep and is_drawn(board):
        parts.append(_sweep(board))
    parts += [_table(one) for one in tables_of(board)]
    return Section(f"board-{number}", board.title, join(parts), intro=data, menu=board.name)


def _table(one: Table) -> Html:
    """Return a table of text; a column of numbers sorts by them."""
    columns = [Column(title) for title in one.header]
    rows = [[_cell(cell) for cell in row] for row in one.rows]
    note = paragraph(one.note) if one.note else Html("")
    return join([table(one.title, columns, rows), note])


def _cell(words: str) -> Cell:
    plain = words.replace("**", "")
    first = re.match(r"[-+]?\d+(\.\d+)?", plain)
    shown = tag("strong", plain) if plain != words else plain
    return Cell(shown, float(first[0]) if first else plain)


def _sweep(board: Board) -> Html:
    found = {f"{s}, {named(board, row)}": line for (s, row), line in sweep_lines(board).items()}
    series = [
        Series(
            name,
            [x for x, _, _ in line],
            [mean for _, mean, _ in line],
            [mean - std for _, mean, std in line],
            [mean + std for _, mean, std in line],
        )
        for name, line in found.items()
    ]
    key = next(point[0][0] for _, point in board.points.values())
    rows = [(name, x, mean, std) for name, line in found.items() for x, mean, std in line]
    numbers = table(
        "The lines.",
        [Column("line"), *(Column(t, "number", 4) for t in (key, "Dice", "deviation"))],
        rows,
    )
    label = AXES.get(key, key)
    plot = lines(board.title, "Bands: standard deviation.", series, x_label=label, y_label="Dice")
    words = "Test Dice in the last round; bands: standard deviation."
    return tag("div", figure(plot, words, numbers), class_="single")


def _gain(boards: Sequence[Board]) -> Html:
    found = gains(boards)
    settings = list(dict.fromkeys(setting for setting, _, _ in found))
    points = [
        Point(
            bias,
            gain,
            f"{setting}: {gain:+.1f} points, {bias:+.1f} px",
            series=settings.index(setting),
        )
        for setting, bias, gain in found
    ]
    plot = plane(
        "Gain against bias",
        "Each dot is a run of FedA3I against FedAvg with the same seed.",
        points,
        x_label="bias that the weights take away, px at 256",
        y_label="gain over FedAvg, points of Dice",
    )
    keys = legend([(name, dot_key("circle", k)) for k, name in enumerate(settings)])
    columns = [
        Column("setting"),
        Column("bias taken away", "number", 1),
        Column("gain", "number", 1),
    ]
    numbers = table("The runs.", columns, found)
    return tag("div", figure(join([plot, keys]), "Every run of FedA3I.", numbers), class_="single")
