"""``--dry-run`` of ``feda3i run`` and ``feda3i bench``: say what would happen, and do nothing."""

from __future__ import annotations

import math
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from feda3i.core.cases import Federation
from feda3i.core.messages import Order
from feda3i.engine.host import SiteHost
from feda3i.engine.job import Job
from feda3i.engine.notes import notes_before
from feda3i.engine.run import job_of
from feda3i.engine.scoring import score_cases
from feda3i.engine.transport import one_thread, worker_count
from feda3i.noise.model import Annotator
from feda3i.recipe import Recipe
from feda3i.report.html import size
from feda3i.simulation.federation import annotators_for, clean_federation
from feda3i.simulation.views import as_trained

SITES = 12
"""Sites that are named one by one."""
SCORED = 8
"""Test cases that are scored to see how long one takes."""


def print_forecast(recipe: Recipe, path: Path) -> None:
    """Load the data, measure one step, and print what a run would do and take."""
    with one_thread():
        job, federation, annotators = _job_without_noise(recipe)
        trained = as_trained(federation, recipe.method.name)
        job.check_memory(max(len(index) for index in trained.sites.values()))
        seconds = seconds_of_run(job, trained, *measure_speed(job, trained))
    epochs, batch, every = recipe.train.epochs, recipe.train.batch, recipe.evaluate.every
    rows = {
        "data": recipe.data.name,
        "cases": f"{sum(map(len, trained.sites.values()))} to train on, {len(trained.test)} to "
        f"test on; {' x '.join(map(str, trained.train.usual_shape))} px",
        "sites": sites_text(trained),
        "noise": noise_text(recipe, annotators),
        "network": f"{recipe.model.name}: {int(job.layout.trained().sum()):,} parameters",
        "method": ", ".join(
            [recipe.method.name, *(f"{k} = {v}" for k, v in recipe.method.options().items())]
        ),
        "rounds": f"{recipe.rounds} of {epochs} epochs in batches of {batch}; "
        f"tested every {every} rounds".replace("every 1 rounds", "after every round"),
        "time": f"about {duration(seconds)} on {worker_count(job, len(trained.sites))} cores, "
        "measured by one step here; more if the machine has other work",
        **cost_rows(job, trained),
        "folder": str(path),
    }
    print(f"{recipe.title or path.name}: what would happen (nothing is trained or written)\n")
    notes = [("NOTE", note) for note in notes_before(job.method, recipe.rounds)]
    for name, words in [*rows.items(), *notes]:
        print(textwrap.fill(f"{name:<10}{words}", 100, subsequent_indent=" " * 10))


def _job_without_noise(recipe: Recipe) -> tuple[Job, Federation, Mapping[str, Annotator]]:
    """Return job, data and annotators; noisy masks take long to draw and change no forecast."""
    federation = clean_federation(recipe)
    annotators = annotators_for(recipe, federation)
    if recipe.noise.name != "none":  # as they are now, the masks are the truth of the run
        federation = replace(federation, clean_masks=federation.train.masks)
    return job_of(recipe, federation), federation, annotators


def sites_text(federation: Federation) -> str:
    """Return the sites with their numbers of cases; of many only the first and the last."""
    named = [f"{name} ({len(federation.sites[name])})" for name in federation.names()]
    shown = named if len(named) <= SITES else [*named[: SITES - 1], f"... {named[-1]}"]
    return f"{len(named)}: {', '.join(shown)}"


def noise_text(recipe: Recipe, annotators: Mapping[str, Annotator]) -> str:
    """Return how masks are changed, and by how much."""
    if not annotators:
        return "none: masks are trained on as they are"
    mu = [one.mu for one in annotators.values()]
    words = ", setting ".join(
        filter(None, [recipe.noise.name, recipe.noise.options().get("setting")])
    )
    return (
        f"SIMULATED, {words}: {sum(m > 0 for m in mu)} sites draw too large, "
        f"{sum(m < 0 for m in mu)} too small, by up to {max(map(abs, mu)):.1f} px on average"
    )


def cost_rows(job: Job, federation: Federation) -> dict[str, str]:
    """Return memory and bytes on the wire."""
    from feda3i.ram import available

    cases = sum(
        part.images.nbytes + part.masks.nbytes for part in (federation.train, federation.test)
    )
    network = 4 * job.layout.size + 8 * job.layout.integers
    need = cases + worker_count(job, len(federation.sites)) * max(peak_memory() - cases, 0)
    short = "" if need < available() else "; NOT ENOUGH: try engine.workers=1 or a smaller size"
    received = network * (1 + len(job.method.wire.networks))
    return {
        "memory": f"about {size(need)}; free now: {size(available())}{short}",
        "wire": f"a site receives {size(received)} and sends {size(network)} per round, "
        f"{size(job.recipe.rounds * (received + network))} in the run (over a network)",
    }


def measure_speed(job: Job, federation: Federation) -> tuple[float, float]:
    """Return seconds per case of one epoch of training and of one scoring; nothing is kept."""
    name = max(federation.names(), key=lambda site: len(federation.sites[site]))
    train = job.recipe.train.model_copy(update={"epochs": 1})
    index = federation.sites[name][: train.batch]
    job = replace(job, recipe=job.recipe.model_copy(update={"train": train}))
    with tempfile.TemporaryDirectory(prefix="feda3i-forecast-") as temporary:
        station = SiteHost(job, federation.train, {name: index}, Path(temporary))
        server = job.server({name: len(index)})
        job.method.start(server)
        plan = job.method.plan(server, 1)
        settings = {**plan.settings, **plan.site_settings.get(name, {})}
        order = Order("fit", 1, name, job.initial, settings, dict(plan.networks.get(name, {})))
        cases = federation.test if len(federation.test) else federation.train
        where = range(min(SCORED, len(cases)))
        # Other work on this machine must not count: on a CPU only our own seconds do.
        clock = time.process_time if station.predictor.device.type == "cpu" else time.perf_counter
        fit = _second_time(lambda: station.answer(order), clock)
        score = _second_time(
            lambda: score_cases(station.predictor, job.initial, cases, where, False), clock
        )
    return fit / len(index), score / len(where)


def _second_time(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the seconds that work takes when it is repeated: the first time it also prepares."""
    work()
    started = clock()
    work()
    return clock() - started


def seconds_of_run(job: Job, federation: Federation, train: float, score: float) -> float:
    """Return the time of all rounds and scorings at these seconds per case."""
    recipe, sizes = job.recipe, [len(index) for index in federation.sites.values()]
    workers = worker_count(job, len(sizes))
    share = max(sum(sizes) / workers, max(sizes))  # no round ends before its largest site has
    # The last round also scores the training cases, and a survey looks at them once.
    passes = 1 + bool(job.method.wire.survey)
    passes += recipe.rounds * (recipe.model.statistics == "exact")
    scored = math.ceil(recipe.rounds / recipe.evaluate.every) * len(federation.test)
    scored += passes * sum(sizes)
    return recipe.rounds * recipe.train.epochs * share * train + scored * score / workers


def seconds_of_round(recipe: Recipe) -> float:
    """Return the seconds that one core takes for a round."""
    alone = recipe.engine.model_copy(update={"workers": 1})
    with one_thread():
        job, federation, _ = _job_without_noise(recipe.model_copy(update={"engine": alone}))
        federation = as_trained(federation, recipe.method.name)
        return seconds_of_run(job, federation, *measure_speed(job, federation)) / recipe.rounds


def peak_memory() -> int:
    """Return the most bytes that this process has held so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # no such count on this system
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(41), duration(600), duration(8000)
    ('41 seconds', '10 minutes', '2.2 hours')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
