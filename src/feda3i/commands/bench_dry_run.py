"""``feda3i bench --dry-run``: how many runs, how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from feda3i.basics.parallel import cores
from feda3i.bench.conduct import Agenda, times_of
from feda3i.bench.grid import Grid, GridCell
from feda3i.bench.schedule import left
from feda3i.commands.dry_run import duration


def print_estimate(grid: Grid, agenda: Agenda, jobs: int | None) -> None:
    """Print what a bench would do; a step of each kind of run that is not known is measured."""
    missing = agenda.missing()
    settings = list(dict.fromkeys(cell.setting for cell in agenda.cells.values()))
    seeds = sorted({cell.seed for cell in agenda.cells.values()})
    data = sorted({cell.data for cell in agenda.cells.values()})
    print(f"{grid.name}: {grid.title}")
    print(f"settings  {', '.join(settings)}")
    print(f"data      {', '.join(data)}")
    print(f"seeds     {', '.join(map(str, seeds))}; protocol {grid.protocol}")
    print(
        f"runs      {len(agenda.cells)}, of them {len(agenda.done)} done and {len(missing)} to do"
    )
    if not missing:
        return
    tasks = {task.name: task for task in agenda.tasks}
    played = sum(task.rounds for task in missing)
    shared = played - left(missing, {}, tasks, {task.kind: 1.0 for task in missing})
    print(f"rounds    {played:.0f}, of them {shared:.0f} shared with another run and not trained")
    seconds = times_of(agenda)
    for task in missing:
        if task.kind not in seconds:
            seconds[task.kind] = _measured(agenda.cells[task.name])
    used = jobs or cores()
    total = left(missing, {}, tasks, seconds) / min(used, cores())
    print(
        f"time      about {duration(total)} on {used} cores, by results that are there or one "
        f"measured step of each kind of run; more if the machine has other work"
    )


def _measured(cell: GridCell) -> float:
    """Return the seconds that one core takes for a round, by one step and some scored cases."""
    from feda3i.engine.forecast import forecast, measure_speed
    from feda3i.engine.run import job_of
    from feda3i.engine.transport import one_thread
    from feda3i.simulation.federation import check_recipe

    engine = cell.recipe.engine.model_copy(update={"workers": 1})
    recipe = cell.recipe.model_copy(update={"engine": engine})
    with one_thread():
        federation: Any = check_recipe(recipe)
        if recipe.noise.name != "none":  # as they are now, the masks are the truth of the run
            federation = replace(federation, clean_masks=federation.train.masks)
        job = job_of(recipe, federation)
        found = forecast(job, federation, measure_speed(job, federation))
    return found.seconds / recipe.rounds
