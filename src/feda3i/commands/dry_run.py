"""``--dry-run`` of ``feda3i run`` and ``feda3i bench``: say what would happen, and do nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feda3i.commands.keys import value_text
from feda3i.recipe import Recipe
from feda3i.report.html import size

if TYPE_CHECKING:
    from feda3i.bench.conduct import Agenda
    from feda3i.bench.grid import Grid
    from feda3i.core.cases import Federation
    from feda3i.engine.forecast import Forecast
    from feda3i.engine.job import Job

SITES = 12
"""Sites that are named one by one."""


def print_forecast(recipe: Recipe, path: Path) -> None:
    """Load the data, measure one step, and print what a run would do and take."""
    from feda3i.engine.forecast import forecast, measure_speed
    from feda3i.engine.notes import notes_before
    from feda3i.engine.transport import one_thread
    from feda3i.simulation.views import as_trained

    with one_thread():
        job, federation = _without_noise(recipe)
        trained = as_trained(federation, job.recipe.method.name)
        job.check_memory(max(len(index) for index in trained.sites.values()))
        rows = [
            *data_rows(recipe, trained),
            ("noise", noise_text(recipe, federation)),
            *training_rows(job),
        ]
        found = forecast(job, federation, measure_speed(job, federation))
    print(f"{recipe.title or path.name}: what would happen (nothing is trained or written)\n")
    notes = [("NOTE", note) for note in notes_before(job.method, recipe.rounds)]
    for name, words in [*rows, *cost_rows(recipe, found), ("folder", str(path)), *notes]:
        print(textwrap.fill(f"{name:<10}{words}", 100, subsequent_indent=" " * 10))


def _without_noise(recipe: Recipe) -> tuple[Job, Federation]:
    """Return job and data of a recipe; noisy masks take long to draw and change no forecast."""
    from feda3i.engine.run import job_of
    from feda3i.simulation.federation import check_recipe

    federation = check_recipe(recipe)
    if recipe.noise.name != "none":  # as they are now, the masks are the truth of the run
        federation = replace(federation, clean_masks=federation.train.masks)
    return job_of(recipe, federation), federation


def data_rows(recipe: Recipe, federation: Federation) -> list[tuple[str, str]]:
    """Return cases, sites and partition."""
    train, test = federation.train, federation.test
    shape = " x ".join(map(str, train.usual_shape)) + (" (median)" if train.is_ragged else "")
    colours = _count(train.channels, "channel")
    sites = federation.names()
    counts = [len(federation.sites[name]) for name in sites]
    named = [f"{name} ({count})" for name, count in zip(sites, counts, strict=True)]
    if len(named) > SITES:
        least, most = min(counts), max(counts)
        each = _count(most, "case") if least == most else f"{least} to {most} cases"
        named[SITES - 1 :] = [f"... {named[-1]}; {each} each"]
    options = recipe.data.options()
    where = f", {options['path']}" if "path" in options else ""
    partition = federation.notes.get(
        "partition", options.get("partition", "as the data set makes it")
    )
    return [
        ("data", f"{recipe.data.name}{where}"),
        ("cases", f"{sum(counts)} to train on, {len(test)} to test on; {shape} px, {colours}"),
        ("classes", ", ".join(federation.classes)),
        ("sites", f"{len(sites)}: {', '.join(named)}"),
        ("partition", str(partition)),
    ]


def noise_text(recipe: Recipe, federation: Federation) -> str:
    """Return how masks are disturbed, and by how much."""
    if recipe.noise.name == "none":
        return "none: masks are trained on as they are"
    from feda3i.simulation.annotation import annotators_of

    mu = [one.mu for one in annotators_of(recipe, federation).values()]
    setting = recipe.noise.options().get("setting")
    return (
        f"SIMULATED, {recipe.noise.name}{f', setting {setting}' if setting else ''}: "
        f"{sum(m > 0 for m in mu)} sites draw too large, {sum(m < 0 for m in mu)} too small, "
        f"by up to {max(map(abs, mu)):.1f} px on average"
    )


def training_rows(job: Job) -> list[tuple[str, str]]:
    """Return network, method and rounds."""
    recipe = job.recipe
    layout = job.layout
    trained = int(layout.trained().sum())
    every = recipe.evaluate.every
    often = "every round" if every == 1 else f"every {every} rounds"
    return [
        (
            "network",
            f"{_with_options(recipe.model.name, recipe.model.options())}: {trained:,} "
            f"parameters, {len(layout.stages)} stages",
        ),
        ("method", _with_options(recipe.method.name, recipe.method.options())),
        (
            "rounds",
            f"{recipe.rounds}, {_count(recipe.train.epochs, 'epoch')} each in batches of "
            f"{recipe.train.batch}; tested after {often}",
        ),
        ("seed", str(recipe.seed)),
    ]


def cost_rows(recipe: Recipe, found: Forecast) -> list[tuple[str, str]]:
    """Return time, memory and bytes on the wire."""
    from feda3i.basics.ram import available

    free = available()
    short = "" if found.memory < free else "; NOT ENOUGH: try engine.workers=1 or a smaller size"
    processes = _count(found.processes, "process", "es")
    return [
        (
            "time",
            f"about {duration(found.seconds)} with {processes}, measured by one step here; "
            f"more if the machine has other work",
        ),
        (
            "memory",
            f"about {size(found.memory)}: {processes} of {size(found.process_bytes)}, "
            f"cases {size(found.case_bytes)}; free now: {size(free)}{short}",
        ),
        (
            "wire",
            f"a site receives {size(found.down)} and sends {size(found.up)} per round, "
            f"{size(recipe.rounds * (found.down + found.up))} in the run (over a network)",
        ),
    ]


def print_estimate(grid: Grid, agenda: Agenda, jobs: int | None) -> None:
    """Print what a bench would do; a step of each kind of run that is not known is measured."""
    from feda3i.basics.parallel import cores
    from feda3i.bench.conduct import times_of
    from feda3i.bench.schedule import left

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
    played = sum(task.rounds for task in missing)
    shared = played - left(missing, {}, {}, {task.kind: 1.0 for task in missing})
    print(f"rounds    {played:.0f}, of them {shared:.0f} shared with another run and not trained")
    seconds = times_of(agenda)
    for task in missing:
        if task.kind not in seconds:
            seconds[task.kind] = _seconds_of_round(agenda.cells[task.name].recipe)
    used = jobs or cores()
    total = left(missing, {}, {}, seconds) / min(used, cores())
    print(
        f"time      about {duration(total)} on {used} cores, by results that are there or one "
        f"measured step of each kind of run; more if the machine has other work"
    )


def _seconds_of_round(recipe: Recipe) -> float:
    """Return the seconds that one core takes for a round, by one step and some scored cases."""
    from feda3i.engine.forecast import forecast, measure_speed
    from feda3i.engine.transport import one_thread

    engine = recipe.engine.model_copy(update={"workers": 1})
    with one_thread():
        job, federation = _without_noise(recipe.model_copy(update={"engine": engine}))
        found = forecast(job, federation, measure_speed(job, federation))
    return found.seconds / recipe.rounds


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(41), duration(600), duration(8000)
    ('41 seconds', '10 minutes', '2.2 hours')
    """
    if seconds < 90:
        return _count(max(round(seconds), 1), "second")
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number} {word}{'' if number == 1 else plural}"


def _with_options(name: str, options: Mapping[str, Any]) -> str:
    shown = [f"{key} = {value_text(value)}" for key, value in options.items()]
    return f"{name} ({', '.join(shown)})" if shown else name
