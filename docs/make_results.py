"""Fill pages under docs/ from the files under results/: python docs/make_results.py.

The prose is written by hand; the figures, and the blocks between marks, come from the results. A
block begins with ``<!-- results: GRID PART ... -->`` and ends with ``<!-- end -->``; between them
stands what was made last. A part is ``runs`` (how many, which are missing), ``figure`` or the name
of a table; none: all of them. ``verdict``, ``state`` and ``gain`` are blocks of their own. All
tables of a grid go to a page of its own under docs/tables/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from feda3i.bench.board import Board, boards_of
from feda3i.bench.figures import draw_gain, draw_sweep, gains, is_drawn
from feda3i.bench.grid import built_in_grids, load_grid
from feda3i.bench.result import Machine, RunResult, collect
from feda3i.bench.stats import interval, spearman
from feda3i.bench.tables import FLOOR, REFERENCE, missing_lines, ordering, tables_of, to_markdown
from feda3i.errors import RecipeError

FILLED = ("results", "why/offsets")
PAGES = [Path(__file__).parent / f"{name}.md" for name in FILLED]
RESULTS = Path(__file__).parents[1] / "results"
IMAGES = Path(__file__).with_name("images") / "results"
TABLES = Path(__file__).with_name("tables")
SCALES = {
    "closest": "closest to the paper (64 px, 50 sites of 40 cases)",
    "small40": "small scale, 40 cases a site",
    "table3-small": "small scale, 16 cases a site",
}
"""Grids that the verdict is made of, the most telling first."""
HUMANS = (
    "Two readers of dermoscopic lesions agree with a Dice of 78.1 % on average, median 85.7 % "
    "(IMA++, a public set with several readers): differences between scores above that are hard to "
    "interpret against the truth of a single reader."
)
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
        special: dict[str, Callable[[], str]] = {
            "verdict": self._verdict,
            "state": self._state,
            "gain": self._gain,
        }
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
        if any(column.startswith("SKIN") for column in board.columns):
            parts.append(HUMANS)
        return "\n\n".join(parts)

    def _verdict(self) -> str:
        """Return where FedA3I gains over FedAvg: a sentence, and a line per scale and setting."""
        said: dict[str, dict[str, list[str]]] = {}
        lines = ["| scale | setting | loss | gain by seed | mean [95 %] | FedA3I |"]
        lines.append("|---|---|---|---|---|---|")
        for grid, scale in SCALES.items():
            for board in self.boards(grid):
                for column, family, gained in gains_of(board):
                    ends = interval(gained)
                    verdict = judged(ends)
                    places = said.setdefault(verdict, {}).setdefault(scale, [])
                    places.append(f"{column} {family}")
                    by_seed = ", ".join(f"{gain:+.1f}" for gain in gained)
                    mean = f"{sum(gained) / len(gained):+.1f}"
                    mean += "" if ends is None else f" [{ends[0]:+.1f}, {ends[1]:+.1f}]"
                    lines.append(
                        f"| {scale} | {column} | {family} | {by_seed} | {mean} | {verdict} |"
                    )
        if len(lines) == 2:
            return "No runs yet."
        words = [
            f"**{verdict.capitalize()}**: "
            + "; ".join(f"{', '.join(places)} ({scale})" for scale, places in found.items())
            for verdict, found in said.items()
        ]
        return "\n".join(
            [
                f"Does FedA3I gain over FedAvg? {'. '.join(words)}. It holds where the whole 95 % "
                "interval over training seeds lies above 0.",
                *("", *lines),
                *("", *self._rankings()),
            ]
        )

    def _rankings(self) -> list[str]:
        """Say for each setting closest to the paper whether its order of the methods holds."""
        found = [row for board in self.boards("closest") for row in ordering(board).rows]
        return [
            f"Order of {count} methods in {setting} ({loss}), closest to the paper: Spearman {rho} "
            f"with the paper's; its winner, {winner}, wins here: {yes}."
            for setting, loss, count, winner, yes, rho in found
        ]

    def _state(self) -> str:
        lines = ["| grid | data | runs done | missing | core time |", "|---|---|---|---|---|"]
        for name in built_in_grids():
            for board in self.boards(name):
                data, spent = " and ".join(board.data), f"{core_seconds(board) / 3600:.1f} h"
                lines.append(
                    f"| {name} | {data} | {board.count} | {len(board.missing)} | {spent} |"
                )
        machines = sorted({in_words(result.machine) for result in self._known.values()})
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

    def tables(self) -> dict[str, str]:
        """Return the page with all tables of each grid that has results, by the grid's name."""
        found: dict[str, str] = {}
        for board in self.all_boards():
            made = to_markdown(board, tables_of(board))
            found[board.name] = f"{found[board.name]}\n{made}" if board.name in found else made
        return found

    def draw(self, folder: Path) -> list[Path]:
        """Draw the figures that the filled pages show."""
        made = [path for name, b in self._shown.items() for path in draw_sweep(b, folder, name)]
        if gains(self.all_boards()):
            made += draw_gain(self.all_boards(), folder)
        return made


def gains_of(board: Board) -> list[tuple[str, str, list[float]]]:
    """Return FedA3I's gain over FedAvg in points by seed, for each column and loss."""
    found = []
    for column in board.columns:
        for family in ("CE", "DC"):
            ours = board.results(column, REFERENCE[family])
            plain = board.results(column, FLOOR[family])
            gained = [100 * (ours[s].last() - plain[s].last()) for s in ours if s in plain]
            if gained:
                found.append((column, family, gained))
    return found


def judged(ends: tuple[float, float] | None) -> str:
    """Return what an interval of gains says.

    >>> judged((0.1, 2.0)), judged((-1.0, 2.0)), judged((-2.0, -0.1)), judged(None)
    ('holds', 'not shown', 'loses', 'one seed only')
    """
    if ends is None:
        return "one seed only"
    return "holds" if ends[0] > 0 else "loses" if ends[1] < 0 else "not shown"


def figure_name(board: Board) -> str:
    """Return the name of a sweep's figure."""
    return "-".join([board.name, *board.data])


def core_seconds(board: Board) -> float:
    """Return the seconds that one core took for the rounds of these runs, shared ones once."""
    unique = {id(r): r.machine for found in board.found.values() for r in found.values()}
    return sum(
        m.rounds_played * m.seconds_per_round * (m.workers if isinstance(m.workers, int) else 1)
        for m in unique.values()
    )


def in_words(machine: Machine) -> str:
    """Return processor and library in words."""
    name, kind = (machine.processor.get(key, "?") for key in ("name", "instructions"))
    return f"{name} ({kind}), {machine.machine}, torch {machine.packages.get('torch', '?')}"


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
    TABLES.mkdir(exist_ok=True)
    for name, text in blocks.tables().items():
        (TABLES / f"{name}.md").write_text(text, encoding="utf-8")
    for path in blocks.draw(IMAGES):
        print(path)
