"""The results of a grid by column and row, and a check that they may be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from feda3i.bench.grid import CLEAN, Grid, GridCell, GridPoint, expand
from feda3i.bench.paper import label, loss
from feda3i.bench.result import RunResult
from feda3i.bench.stats import Spread, spread
from feda3i.errors import RunError
from feda3i.values import flat_items

Place = tuple[str, str]
"""Column and row."""

SAME_FOR_ALL = ("test", "partition", "weights", "order")
SAME_MASKS = ("data", "masks")


@dataclass(frozen=True)
class Board:
    """Results by column (setting and point), row and seed."""

    name: str
    title: str
    data: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    found: Mapping[Place, Mapping[int, RunResult]]  # ``{(column, row): {seed: result}}``
    missing: tuple[GridCell, ...] = ()
    points: Mapping[str, tuple[str, GridPoint]] = field(default_factory=dict)  # by column
    is_sweep: bool = False  # whether the first key of the points is the axis of a figure
    reference: str = ""  # the row that others are compared with; empty: FedA3I with the same loss
    labels: Mapping[str, str] = field(default_factory=dict)  # what rows are called, by row

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
        """Return mean and standard deviation of the last rounds' Dice over all or these seeds.

        Runs that collapsed have no score.
        """
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
        """Return a row's name with the loss where the board has both families."""
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
    found: dict[Place, dict[int, RunResult]] = {}
    missing: dict[str, GridCell] = {}
    points: dict[str, tuple[str, GridPoint]] = {}
    for cell in cells:
        column = column_of(cell)
        points[column] = (cell.setting, cell.point)
        if cell.digest in known:
            found.setdefault((column, cell.row), {})[cell.seed] = known[cell.digest]
        else:
            missing.setdefault(cell.digest, cell)
    data = tuple(dict.fromkeys(cell.data for cell in cells))
    board = Board(
        *(grid.name, grid.title, data, tuple(points), grid.rows, found, tuple(missing.values())),
        *(points, grid.kind == "sweep", grid.reference, grid.labels),
    )
    check_shared(board, is_fixed=grid.protocol == "paper")
    return board


def column_of(cell: GridCell) -> str:
    """Return the name of a cell's column: the setting, and the values that vary."""
    values = [f"{key.rpartition('.')[2]} {value}" for key, value in cell.point]
    return ", ".join([cell.setting, *values])


def board_of_results(known: Mapping[str, RunResult]) -> Board:
    """Return a board of whatever results there are: conditions as columns, methods as rows.

    Both are named by the values in which they differ, and only by those.
    """
    results = list(known.values())
    data_names = [
        f"{r.recipe.data.name} {r.recipe.noise.setting or r.recipe.noise.name}" for r in results
    ]
    conditions = [_conditions(result) for result in results]
    columns = _told_apart(data_names, conditions, ", ", " ")
    methods = [result.recipe.method for result in results]
    rows = _told_apart([m.name for m in methods], [m.options() for m in methods], ",", "=")
    found: dict[Place, dict[int, RunResult]] = {}
    for column, row, result in zip(columns, rows, results, strict=True):
        found.setdefault((column, row), {})[result.recipe.seed] = result
    data = tuple(sorted({result.recipe.data.name for result in results}))
    ordered = tuple(sorted(set(columns))), tuple(sorted({row for _, row in found}))
    return Board("results", "All results", data, *ordered, found)


def _conditions(result: RunResult) -> dict[str, Any]:
    """Return all of a recipe that methods of one column have in common."""
    left_out = ("title", "seed", "method", "methods", "engine")
    values = result.recipe.shared().items()
    return dict(flat_items({key: value for key, value in values if key not in left_out}))


def _told_apart(
    names: Sequence[str], options: Sequence[Mapping[str, Any]], between: str, sign: str
) -> list[str]:
    """Return each name with those of its values in which things of this name differ.

    The loss is always told: methods are compared within its family.
    """
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


# -- may they be compared? ------------------------------------------------------------------------


def check_shared(board: Board, is_fixed: bool) -> None:
    """Raise ``RunError`` unless all methods of a column saw the same things.

    That is for each seed the same test cases, partition, initial weights and order of cases, and
    the same noisy masks (reference rows on clean masks excepted); in the paper's protocol also the
    same cases, masks and partition for all seeds.
    """
    for column in board.columns:
        named = [
            (row, seed, result)
            for row in board.rows
            for seed, result in board.results(column, row).items()
        ]
        noisy = [one for one in named if one[2].recipe.method.name.lower() != CLEAN]
        for seed in {seed for _, seed, _ in named}:
            _check_same(column, [one for one in named if one[1] == seed], SAME_FOR_ALL)
            _check_same(column, [one for one in noisy if one[1] == seed], SAME_MASKS)
        if is_fixed:
            _check_same(column, noisy, (*SAME_MASKS, "test", "partition"))


def _check_same(
    column: str, named: Sequence[tuple[str, int, RunResult]], keys: Iterable[str]
) -> None:
    for key in keys:
        found = {
            result.hashes[key]: f"{row}, seed {seed}"
            for row, seed, result in named
            if key in result.hashes
        }
        if len(found) > 1:
            (first, one), (second, two) = list(found.items())[:2]
            raise RunError(
                f"{column}: expected the same {key} for all methods, found {first[:12]} ({one}) "
                f"and {second[:12]} ({two}); run one of them again"
            )
