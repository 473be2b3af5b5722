"""Fill pages under docs/ from the files under results/: python docs/make_results.py.

The prose is written by hand; the figures, and the blocks between marks, come from the results. A
block begins with ``<!-- results: GRID PART ... -->`` and ends with ``<!-- end -->``; between them
stands what was made last. A part is ``runs`` (how many, which are missing), ``figure`` or the name
of a table; none: all of them. ``state`` and ``gain`` are blocks of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from feda3i.bench.board import Board, boards_of
from feda3i.bench.figures import draw_board, draw_gain, gains, is_drawn
from feda3i.bench.grid import built_in_grids, load_grid
from feda3i.bench.result import RunResult, collect
from feda3i.bench.stats import spearman
from feda3i.bench.tables import missing_lines, tables_of
from feda3i.errors import RecipeError

FILLED = ("results", "statistics", "offset", "training", "volumes")
PAGES = [Path(__file__).with_name(f"{name}.md") for name in FILLED]
RESULTS = Path(__file__).parents[1] / "results"
IMAGES = Path(__file__).with_name("images") / "results"
_BLOCK = re.compile(r"(<!-- results: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


class Page:
    """Fill the blocks of a page from results.

    Parameters
    ----------
    images
        Where figures lie, as the page names them.
    """

    def __init__(self, known: Mapping[str, RunResult], images: str) -> None:
        self._known, self._images = known, images
        self._boards: dict[str, list[Board]] = {}
        self._shown: dict[str, Board] = {}

    def boards(self, grid: str) -> list[Board]:
        """Return the boards of a grid that have results."""
        if grid not in self._boards:
            self._boards[grid] = boards_of(load_grid(grid), self._known)
        return self._boards[grid]

    def filled(self, text: str) -> str:
        """Return the page with every block updated."""
        return _BLOCK.sub(lambda m: f"{m[1]}{self._block(m[2].split())}\n{m[3]}", text)

    def _block(self, words: Sequence[str]) -> str:
        name, *wanted = words
        special: dict[str, Callable[[], str]] = {"state": self._state, "gain": self._gain}
        if name in special:
            return special[name]()
        if name not in built_in_grids():
            known = ", ".join([*special, *built_in_grids()])
            raise RecipeError(f"a block of results: expected one of {known}, found '{name}'")
        boards = self.boards(name)
        if not boards:
            return f"No runs yet: `feda3i bench {name}`."
        return "\n\n".join(self._tables(board, wanted) for board in boards)

    def _tables(self, board: Board, wanted: Sequence[str]) -> str:
        parts = []
        if not wanted or "runs" in wanted:
            parts.append(f"**{' and '.join(board.data)}**, {board.count} runs.")
            parts += missing_lines(board)
        if is_drawn(board) and (not wanted or "figure" in wanted):
            self._shown[figure_name(board)] = board
            parts.append(f"![{board.title}]({self._images}/{figure_name(board)}.svg)")
        for table in tables_of(board):
            if not wanted or table.name.removeprefix(f"{board.name}-") in wanted:
                parts.append(table.to_markdown())
        return "\n\n".join(parts)

    def _state(self) -> str:
        lines = ["| grid | data | runs done | missing | core time |", "|---|---|---|---|---|"]
        for name in built_in_grids():
            for board in self.boards(name):
                data, spent = " and ".join(board.data), f"{core_seconds(board) / 3600:.1f} h"
                lines.append(
                    f"| {name} | {data} | {board.count} | {len(board.missing)} | {spent} |"
                )
        machines = sorted({machine_text(result) for result in self._known.values()})
        return "\n".join([*lines, "", *(f"Machine: {text}." for text in machines)])

    def _gain(self) -> str:
        found = gains(self.all_boards())
        if not found:
            return "No runs of FedA3I yet."
        _, bias, gain = zip(*found, strict=True)
        return (
            f"![Gain against the bias taken away]({self._images}/gain.svg)\n\n{len(found)} runs; "
            f"Spearman's rank correlation is {spearman(bias, gain):.2f}."
        )

    def all_boards(self) -> list[Board]:
        """Return the boards of all grids."""
        return [board for name in built_in_grids() for board in self.boards(name)]

    def draw(self, folder: Path) -> list[Path]:
        """Draw the figures that the filled pages show."""
        made = [path for name, b in self._shown.items() for path in draw_board(b, folder, name)]
        if gains(self.all_boards()):
            made += draw_gain(self.all_boards(), folder)
        return made


def figure_name(board: Board) -> str:
    """Return the name of a sweep's figure."""
    return "-".join([board.name, *board.data])


def core_seconds(board: Board) -> float:
    """Return the seconds that one core took for the rounds of these runs, shared ones once."""
    unique = {id(r): r for found in board.found.values() for r in found.values()}
    total = 0.0
    for result in unique.values():
        machine = result.machine
        workers = machine["workers"] if isinstance(machine.get("workers"), int) else 1
        total += machine["rounds_played"] * machine["seconds_per_round"] * workers
    return total


def machine_text(result: RunResult) -> str:
    """Return processor and library of a run in words."""
    processor, packages = result.machine["processor"], result.machine["packages"]
    return (
        f"{processor['name']} ({processor['instructions']}), {result.machine['machine']}, "
        f"torch {packages['torch']}"
    )


def made() -> Page:
    """Return the page's blocks as the results are now."""
    known, unusable = collect([RESULTS])
    for line in unusable:
        print(f"NOTE: {line}")
    return Page(known, f"{IMAGES.parent.name}/{IMAGES.name}")


def pages(blocks: Page) -> dict[Path, str]:
    """Return each page with all its blocks made anew."""
    return {path: blocks.filled(path.read_text(encoding="utf-8")) for path in PAGES}


if __name__ == "__main__":
    blocks = made()
    for path, text in pages(blocks).items():
        path.write_text(text, encoding="utf-8")
    for path in blocks.draw(IMAGES):
        print(path)
