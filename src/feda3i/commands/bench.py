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
    from feda3i.bench.conduct import Agenda
    from feda3i.bench.grid import Grid, GridCell


def need_grid(name: str | None) -> str:
    """Return the name of the grid; ``RecipeError`` with the list of grids if there is none."""
    from feda3i.bench.grid import built_in_grids, load_grid

    if name is not None:
        return name
    rows = "\n".join(f"  {known:<18}{load_grid(known).title}" for known in built_in_grids())
    raise RecipeError(f"expected a grid: the path of a .toml file, or one of\n{rows}")


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
    only: Annotated[
        list[str] | None, typer.Option(help="Only runs with this text in their name.")
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
    from feda3i.bench.conduct import agenda_of
    from feda3i.bench.grid import load_grid

    source = need_grid(grid)
    loaded = load_grid(source, overrides or [])
    agenda = agenda_of(_chosen(loaded, shard, only or []), results)
    for line in agenda.unusable:
        print(f"NOTE: {line}", file=sys.stderr)
    if dry_run:
        _estimate(loaded, agenda, jobs)
    else:
        _conduct(agenda, out, results, jobs, quiet)
        print(f"all {len(agenda.tasks)} runs done; see: feda3i tables {results} --grid {source}")


def _chosen(grid: Grid, shard: str | None, only: Sequence[str]) -> list[GridCell]:
    """Return the cells of a grid that this machine is to run."""
    from feda3i.bench.branching import family_of
    from feda3i.bench.grid import expand
    from feda3i.bench.grid import shard as part_of

    cells = expand(grid)
    if only:
        cells = [c for c in cells if all(w in f"{c.setting} {c.name}" for w in only)]
        if not cells:
            raise RecipeError(f"no run of '{grid.name}' has {' and '.join(only)} in its name")
    if shard is None:
        return cells
    return part_of(cells, [family_of(cell.recipe) for cell in cells], shard)


def _estimate(grid: Grid, agenda: Agenda, jobs: int | None) -> None:
    """Print what is to do; a step of each row of each setting is measured."""
    from feda3i.bench.conduct import rounds_to_train
    from feda3i.commands.dry_run import duration, job_and_data, seconds_of_round
    from feda3i.engine.transport import one_thread
    from feda3i.pool import cores

    missing = agenda.missing()
    every, trained = sum(task.rounds for task in missing), rounds_to_train(missing)
    seconds: dict[tuple[str, str], float] = {}
    for task in missing:
        recipe, kind = task.cell.recipe, (task.cell.setting, task.cell.row)
        if kind not in seconds:
            engine = recipe.engine.model_copy(update={"workers": 1})
            with one_thread():
                job, data, _ = job_and_data(recipe.model_copy(update={"engine": engine}))
                seconds[kind] = seconds_of_round(job, data)
    total = sum(
        rounds * seconds[task.cell.setting, task.cell.row]
        for task, rounds in zip(missing, trained, strict=True)
    )
    used = min(jobs or cores(), cores())
    print(f"{grid.name}: {grid.title}")
    print(f"runs      {len(agenda.tasks)}: {len(agenda.done)} done and {len(missing)} to do")
    print(f"rounds    {every}; {every - sum(trained)} are shared with another run and not trained")
    print(f"time      about {duration(total / used)} on {used} cores")


def _conduct(agenda: Agenda, out: Path, results: Path, jobs: int | None, quiet: bool) -> None:
    from feda3i.bench.conduct import conduct, side_by_side

    def tell(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr, flush=True)

    _announce(agenda)
    tell(f"{len(agenda.tasks)} runs, {len(agenda.done)} of them done; results in {results}")
    try:
        failed = conduct(agenda, out, results, tell, jobs or side_by_side(agenda))
    except KeyboardInterrupt:
        print("\ninterrupted; repeat the command to continue", file=sys.stderr)
        sys.exit(130)
    for name, why in failed.items():
        print(f"failed: {name}: {why}", file=sys.stderr)
    if failed:
        sys.exit(1)


def _announce(agenda: Agenda) -> None:
    """Say once which files the plug-ins of the grid execute."""
    from feda3i.recipe.trust import announce, named_code

    recipes = [task.cell.recipe for task in agenda.missing()]
    for recipe in {tuple(map(str, named_code(recipe))): recipe for recipe in recipes}.values():
        announce(recipe)
