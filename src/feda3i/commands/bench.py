"""``feda3i bench``: run a grid of methods, settings and seeds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feda3i.errors import RecipeError

if TYPE_CHECKING:
    from feda3i.bench.conduct import Agenda
    from feda3i.bench.grid import Grid, GridCell


def need_grid(name: str | None) -> str:
    """Return the name of the grid; ``RecipeError`` with the list of grids if there is none."""
    from feda3i.bench.grid import built_in, load

    if name is not None:
        return name
    rows = "\n".join(f"  {known:<18}{load(known).title}" for known in built_in())
    raise RecipeError(f"expected a grid: the path of a .toml file, or one of\n{rows}")


def bench(
    source: str,
    overrides: Sequence[str],
    *,
    out: Path,
    results: Path,
    shard: str | None,
    only: Sequence[str],
    jobs: int | None,
    quiet: bool,
    is_dry: bool,
    is_list: bool,
) -> None:
    """Run what is missing of a grid; or list it, or say what it would take."""
    from feda3i.bench.conduct import agenda_of
    from feda3i.bench.grid import load

    grid = load(source, overrides)
    cells = chosen(grid, shard, only)
    agenda = agenda_of(cells, results)
    for line in agenda.unusable:
        print(f"NOTE: {line}", file=sys.stderr)
    if is_list:
        _list(agenda, cells)
    elif is_dry:
        from feda3i.commands.bench_dry_run import dry_run

        dry_run(grid, agenda, jobs)
    else:
        _play(agenda, out, results, jobs, quiet)
        print(f"all {len(agenda.cells)} runs done; see: feda3i tables {results} --grid {source}")


def chosen(grid: Grid, shard: str | None, only: Sequence[str]) -> list[GridCell]:
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


def _list(agenda: Agenda, cells: Sequence[GridCell]) -> None:
    done = {agenda.cells[name].digest: name for name in agenda.done}
    for name, cell in agenda.cells.items():
        result = agenda.known.get(cell.digest)
        state = "missing" if result is None else f"{result.last():.4f}"
        print(f"{state:8}  {cell.setting:12}  {cell.row:32}  seed {cell.seed}  {name}")
    print(f"{len(done)} of {len(agenda.cells)} runs done")


def _play(agenda: Agenda, out: Path, results: Path, jobs: int | None, quiet: bool) -> None:
    from feda3i.bench.conduct import Conductor, cores, side_by_side
    from feda3i.bench.progress import Progress

    done, total = len(agenda.done), len(agenda.cells)
    _announce(agenda)
    each = None if jobs is None else max(1, cores() // jobs)
    limit = side_by_side(agenda) if jobs is None else jobs * (each or 1)
    progress = Progress(total, done, quiet)
    progress.note(f"{total} runs, {done} of them done; results in {results}")
    conductor = Conductor(agenda, out, results, progress, cores=limit, each=each)
    try:
        conductor.play()
    except KeyboardInterrupt:
        print("\ninterrupted; repeat the command to continue", file=sys.stderr)
        sys.exit(130)
    finally:
        progress.end()
    if conductor.failed:
        for name, why in conductor.failed.items():
            print(f"failed: {name}: {why}", file=sys.stderr)
        sys.exit(1)


def _announce(agenda: Agenda) -> None:
    """Say once which files the plug-ins of the grid execute."""
    from feda3i.recipe.trust import announce, named_code

    told: set[str] = set()
    for task in agenda.missing():
        recipe = agenda.cells[task.name].recipe
        names = {str(code) for code in named_code(recipe)}
        if names - told:
            announce(recipe)
            told |= names
