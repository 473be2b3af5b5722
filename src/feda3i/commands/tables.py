"""``feda3i tables``: tables and figures of the results of a bench."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feda3i.errors import RunError

if TYPE_CHECKING:
    from feda3i.bench.board import Board
    from feda3i.bench.text_table import Table


def tables(
    places: Annotated[
        list[Path], typer.Argument(help="Result files, run folders, or their parents.")
    ],
    grid: Annotated[
        list[str] | None,
        typer.Option(help="Grids to make tables of; default: all built-in ones with results."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for Markdown, CSV, LaTeX and figures.")
    ] = None,
) -> None:
    """Make tables and figures of results, with statistics and the paper's numbers beside."""
    from feda3i.bench.board import board_of_results, boards_of
    from feda3i.bench.grid import built_in_grids, load_grid
    from feda3i.bench.result import collect
    from feda3i.bench.tables import tables_of, to_markdown

    known, unusable = collect(places)
    for line in unusable:
        print(f"NOTE: {line}", file=sys.stderr)
    boards = [one for name in grid or built_in_grids() for one in boards_of(load_grid(name), known)]
    if known and not boards and not grid:
        boards = [board_of_results(known)]
    if not boards:
        where = ", ".join(map(str, places))
        raise RunError(f"expected results of finished runs in {where}, found none")
    for board in boards:
        made = tables_of(board)
        print(to_markdown(board, made))
        if out is not None:
            _write(board, made, out)


def _write(board: Board, made: Sequence[Table], out: Path) -> None:
    from feda3i.bench.figures import draw_gain, draw_sweep, gains, is_drawn
    from feda3i.bench.tables import to_markdown
    from feda3i.files import write_file
    from feda3i.recipe.loading import slug

    stem = slug("-".join([board.name, *board.data]))
    folder = out / stem
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / f"{stem}.md", to_markdown(board, made).encode())
    for table in made:
        write_file(folder / f"{table.name}.csv", table.to_csv().encode())
        write_file(folder / f"{table.name}.tex", (table.to_latex() + "\n").encode())
    if is_drawn(board):
        draw_sweep(board, folder)
    if gains([board]):
        draw_gain([board], folder, f"{board.name}-gain")
    print(f"written: {folder}", file=sys.stderr)
