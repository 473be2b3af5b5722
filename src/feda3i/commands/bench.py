"""``feda3i bench``: run a grid of methods, settings and seeds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feda3i.commands.app import Quiet
from feda3i.errors import RecipeError

if TYPE_CHECKING:
    from feda3i.bench.conduct import Agenda, Task


def bench(
    grid: Annotated[
        str | None,
        typer.Argument(help="A .toml file or the name of a built-in grid; none: list them."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="data.skin=DIR, seeds=[0,1], rows=[...], or changes to every recipe."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the run folders.")] = Path("runs/bench"),
    results: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    shard: Annotated[
        str | None, typer.Option(help="I/N: only the I-th of N parts of the grid.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs side by side; default: one per core.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the runs and estimate their time.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a grid of methods, settings and seeds; what is done is not run again."""
    from feda3i.bench.branching import family_of
    from feda3i.bench.conduct import agenda_of
    from feda3i.bench.grid import built_in_grids, expand, load_grid
    from feda3i.bench.grid import shard as part_of

    if grid is None:
        rows = "\n".join(f"  {known:<18}{load_grid(known).title}" for known in built_in_grids())
        raise RecipeError(f"expected a grid: the path of a .toml file, or one of\n{rows}")
    cells = expand(load_grid(grid, overrides or []))
    if shard is not None:
        cells = part_of(cells, [family_of(cell.recipe) for cell in cells], shard)
    agenda = agenda_of(cells, results)
    for line in agenda.unusable:
        print(f"NOTE: {line}", file=sys.stderr)
    count = f"{len(agenda.tasks)} runs, {len(agenda.tasks) - len(agenda.missing)} of them done"
    if dry_run:
        _estimate(agenda.missing, count, jobs)
    else:
        _conduct(agenda, count, out, results, jobs, quiet)
        print(f"all {len(agenda.tasks)} runs done; see: feda3i tables {results} --grid {grid}")


def _estimate(missing: Sequence[Task], count: str, jobs: int | None) -> None:
    """Print what is to do; a step of each row of each setting is measured."""
    from feda3i.bench.conduct import rounds_to_train
    from feda3i.commands.preview import duration, job_and_data, seconds_of_round
    from feda3i.engine.transport import one_thread
    from feda3i.pool import cores

    trained = rounds_to_train(missing)
    seconds: dict[tuple[str, str], float] = {}
    total = 0.0
    for task, rounds in zip(missing, trained, strict=True):
        recipe, kind = task.cell.recipe, (task.cell.setting, task.cell.row)
        if kind not in seconds:
            engine = recipe.engine.model_copy(update={"workers": 1})
            with one_thread():
                job, data, _ = job_and_data(recipe.model_copy(update={"engine": engine}))
                seconds[kind] = seconds_of_round(job, data)
        total += rounds * seconds[kind]
    used = min(jobs or cores(), cores())
    shared = sum(task.cell.recipe.rounds for task in missing) - sum(trained)
    print(f"runs      {count}")
    print(f"rounds    {sum(trained)} to train; {shared} more are shared with another run")
    print(f"time      about {duration(total / used)} on {used} cores")


def _conduct(
    agenda: Agenda, count: str, out: Path, results: Path, jobs: int | None, quiet: bool
) -> None:
    from feda3i.bench.conduct import conduct, side_by_side
    from feda3i.recipe.trust import announce, named_code

    recipes = [task.cell.recipe for task in agenda.missing]
    # Once: which files the plug-ins of the grid execute.
    for recipe in {tuple(map(str, named_code(recipe))): recipe for recipe in recipes}.values():
        announce(recipe)

    def tell(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr, flush=True)

    tell(f"{count}; results in {results}")
    try:
        failed = conduct(agenda, out, results, tell, jobs or side_by_side(agenda))
    except KeyboardInterrupt:
        print("\ninterrupted; repeat the command to continue", file=sys.stderr)
        sys.exit(130)
    for name, why in failed.items():
        print(f"failed: {name}: {why}", file=sys.stderr)
    if failed:
        sys.exit(1)
