"""The results of a grid by column and row, and a check that they may be compared."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from feda3i.bench.grid import CLEAN, Grid, GridCell, GridPoint, expand
from feda3i.bench.paper import label, loss
from feda3i.bench.result import RunResult
from feda3i.bench.stats import Spread, spread
from feda3i.errors import RunError
from feda3i.values import flat_items

SAME = ("test", "partition", "data", "masks")
"""What all methods of a column have in common, for each seed."""
NOISY = ("data", "masks")  # what rows on clean masks do not share with the others
FIXED = ("test", "partition", *NOISY)  # what the paper's protocol has in common for all seeds


@dataclass(frozen=True)
class Board:
    """Results by column (setting and point), row and seed."""

    name: str
    title: str
    data: tuple[str, ...]
    points: Mapping[str, tuple[str, GridPoint]]  # setting and point of each column
    rows: tuple[str, ...]
    found: Mapping[tuple[str, str], Mapping[int, RunResult]]  # {(column, row): {seed: result}}
    missing: tuple[GridCell, ...] = ()
    is_sweep: bool = False  # whether the first key of the points is the axis of a figure
    reference: str = ""  # the row that others are compared with; empty: FedA3I with the same loss
    labels: Mapping[str, str] = field(default_factory=dict)  # what rows are called, by row

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(self.points)

    @property
    def settings(self) -> list[str]:
        """Return the settings that the columns belong to."""
        return list(dict.fromkeys(setting for setting, _ in self.points.values()))

    def results(self, column: str, row: str) -> Mapping[int, RunResult]:
        """Return the results of a place by seed; empty if there are none."""
        return self.found.get((column, row), {})

    def score(
        self, column: str, row: str, rounds: int = 1, seeds: Collection[int] | None = None
    ) -> Spread | None:
        """Return the last rounds' Dice over all or these seeds, without runs that collapsed."""
        found = self.results(column, row).items()
        chosen = [r for seed, r in found if seeds is None or seed in seeds]
        values = [r.last(rounds) for r in chosen if not r.is_collapsed]
        return spread(values) if values else None

    def collapsed(self, column: str, row: str) -> int:
        """Return how many runs of a place ended up predicting next to nothing."""
        return sum(result.is_collapsed for result in self.results(column, row).values())

    def label(self, row: str) -> str:
        """Return what a row is called in tables: the grid's name for it, the paper's, its own."""
        return self.labels.get(row) or label(row)

    def named(self, row: str) -> str:
        """Return a row's label with the loss where the board has both."""
        both = len({loss(other) for other in self.rows}) > 1
        return f"{self.label(row)}, {loss(row)}" if both else self.label(row)

    def common_seeds(self, setting: str) -> list[int]:
        """Return the seeds that every place of a setting has which has any result.

        Along a sweep, a mean over three seeds beside points of one seed would look like an effect.
        """
        columns = [column for column, (name, _) in self.points.items() if name == setting]
        found = [set(self.results(column, row)) for column in columns for row in self.rows]
        return sorted(set.intersection(*(seeds for seeds in found if seeds))) if any(found) else []

    @property
    def count(self) -> int:
        """Return the number of distinct runs."""
        return len({id(r) for found in self.found.values() for r in found.values()})


def boards_of(grid: Grid, known: Mapping[str, RunResult]) -> list[Board]:
    """Return the boards of a grid that have any result: on real data, and on synthetic ones."""
    names = {setting.data for setting in grid.settings.values()} - {""}
    made = [_board(grid, expand(grid, real), known) for real in ([names, set()] if names else [()])]
    return [board for board in made if board.found]


def _board(grid: Grid, cells: Sequence[GridCell], known: Mapping[str, RunResult]) -> Board:
    found: dict[tuple[str, str], dict[int, RunResult]] = {}
    missing: dict[str, GridCell] = {}
    for cell in cells:
        if cell.digest in known:
            found.setdefault((cell.column, cell.row), {})[cell.seed] = known[cell.digest]
        else:
            missing.setdefault(cell.digest, cell)
    board = Board(
        name=grid.name,
        title=grid.title,
        data=tuple(dict.fromkeys(cell.data for cell in cells)),
        points={cell.column: (cell.setting, cell.point) for cell in cells},
        rows=grid.rows,
        found=found,
        missing=tuple(missing.values()),
        is_sweep=grid.kind == "sweep",
        reference=grid.reference,
        labels=grid.labels,
    )
    _check_shared(board, is_fixed=grid.protocol == "paper")
    return board


def _check_shared(board: Board, is_fixed: bool) -> None:
    """Raise ``RunError`` unless all methods of a column saw the same things."""
    first: dict[tuple[str, str, int | None], tuple[str, str]] = {}
    for (column, row), results in board.found.items():
        for seed, result in results.items():
            is_clean = result.recipe.method.name.lower() == CLEAN
            for key in SAME:
                if key not in result.hashes or (is_clean and key in NOISY):
                    continue
                place = column, key, None if is_fixed and key in FIXED else seed
                mine = result.hashes[key], f"{row}, seed {seed}"
                other = first.setdefault(place, mine)
                if other[0] != mine[0]:
                    raise RunError(
                        f"{column}: expected the same {key} for all methods, found {other[0][:12]} "
                        f"({other[1]}) and {mine[0][:12]} ({mine[1]}); run one of them again"
                    )


def board_of_results(known: Mapping[str, RunResult]) -> Board:
    """Return a board of whatever results there are: conditions as columns, methods as rows.

    Both are named by the values in which they differ, and only by those.
    """
    recipes = [result.recipe for result in known.values()]
    data = [f"{r.data.name} {r.noise.setting or r.noise.name}" for r in recipes]
    left_out = ("title", "seed", "method", "methods", "engine")
    conditions = [{k: v for k, v in r.shared().items() if k not in left_out} for r in recipes]
    columns = _told_apart(data, [dict(flat_items(one)) for one in conditions], ", ", " ")
    methods = [recipe.method for recipe in recipes]
    rows = _told_apart([m.name for m in methods], [m.options() for m in methods], ",", "=")
    found: dict[tuple[str, str], dict[int, RunResult]] = {}
    for column, row, result in zip(columns, rows, known.values(), strict=True):
        found.setdefault((column, row), {})[result.recipe.seed] = result
    names = tuple(sorted({recipe.data.name for recipe in recipes}))
    points: dict[str, tuple[str, GridPoint]] = {name: (name, ()) for name in sorted({*columns})}
    return Board("results", "All results", names, points, tuple(sorted({*rows})), found)


def _told_apart(
    names: Sequence[str], options: Sequence[Mapping[str, Any]], between: str, sign: str
) -> list[str]:
    """Return each name with the loss and the values in which things of this name differ."""
    told = []
    for name, own in zip(names, options, strict=True):
        alike = [values for other, values in zip(names, options, strict=True) if other == name]
        shown = [
            f"{key.rpartition('.')[2]}{sign}{value}"
            for key, value in sorted(own.items())
            if key == "loss" or len({repr(values.get(key)) for values in alike}) > 1
        ]
        told.append(between.join([name, *shown]))
    return told
