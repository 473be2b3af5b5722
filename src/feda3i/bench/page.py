"""All boards on one HTML page: tables that sort, and the figures."""

from __future__ import annotations

import base64
import re
import tempfile
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from feda3i.bench.board import Board
from feda3i.bench.figures import draw_board, draw_gain, gains, is_drawn
from feda3i.bench.tables import missing_lines, tables_of
from feda3i.bench.text_table import Table
from feda3i.report import html
from feda3i.report.html import Cell, Column, Html, Section


def bench_page(boards: Sequence[Board]) -> str:
    """Return the page as text of one file."""
    sections = [_section(board, k) for k, board in enumerate(boards)]
    if gains(boards):
        picture = _picture("Gain against bias", lambda place: draw_gain(boards, place))
        about = "Every run of FedA3I against FedAvg with the same seed."
        sections.append(Section("gain", "When it helps", picture, intro=about, menu="gain"))
    count = len({id(r) for b in boards for found in b.found.values() for r in found.values()})
    return html.page("Comparison of methods", sections, subtitle=f"{count} runs")


def _section(board: Board, number: int) -> Section:
    missing = "".join(f"<p>{escape(line)}</p>" for line in missing_lines(board))
    drawn = _picture(board.title, lambda place: draw_board(board, place)) if is_drawn(board) else ""
    body = Html("".join([missing, drawn, *map(_table, tables_of(board))]))
    data = " and ".join(board.data)
    return Section(f"board-{number}", board.title, body, intro=data, menu=board.name)


def _picture(title: str, draw: Callable[[Path], Sequence[Path]]) -> Html:
    """Return a figure as an image within the page."""
    with tempfile.TemporaryDirectory() as place:
        drawn = next(path for path in draw(Path(place)) if path.suffix == ".svg").read_bytes()
    source = f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"
    return Html(f'<p><img src="{source}" alt="{escape(title)}" style="max-width:100%"/></p>')


def _table(one: Table) -> Html:
    """Return a table of text; a column of numbers sorts by them."""
    columns = [Column(title) for title in one.header]
    rows = [[_cell(cell) for cell in row] for row in one.rows]
    note = f"<p>{escape(one.note)}</p>" if one.note else ""
    return Html(f"{html.table(one.title, columns, rows)}{note}")


def _cell(words: str) -> Cell:
    plain = words.replace("**", "")
    first = re.match(r"[-+]?\d+(\.\d+)?", plain)
    shown = Html(f"<strong>{escape(plain)}</strong>") if plain != words else plain
    return Cell(shown, float(first[0]) if first else plain)
