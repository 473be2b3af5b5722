"""``--dry-run`` of ``feda3i run`` and ``feda3i bench``: say what would happen, and do nothing."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from feda3i.core.cases import Federation
from feda3i.core.messages import Order
from feda3i.engine.host import SiteHost
from feda3i.engine.job import Job
from feda3i.engine.notes import notes_before
from feda3i.engine.run import job_of
from feda3i.engine.scoring import score_cases
from feda3i.engine.transport import one_thread, worker_count
from feda3i.recipe import Recipe
from feda3i.report.html import size
from feda3i.simulation.annotation import annotators_of, true_offsets
from feda3i.simulation.federation import clean_federation
from feda3i.simulation.views import as_trained

SCORED = 8
"""Test cases that are scored to see how long one takes."""


def print_forecast(recipe: Recipe, path: Path) -> None:
    """Load the data, measure one step, and print what a run would do and take."""
    with one_thread():
        job, federation = job_and_data(recipe)
        sites = {name: len(federation.sites[name]) for name in federation.names()}
        job.check_memory(max(sites.values()))
        seconds = seconds_of_run(job, federation, *measure_speed(job, federation))
    mu = true_offsets(federation.notes).values()
    noise = f"SIMULATED, {recipe.noise.name}: {min(mu):+.1f} to {max(mu):+.1f} px" if mu else "none"
    network = 4 * job.layout.size + 8 * job.layout.integers
    received = network * (1 + len(job.method.wire.networks))
    rows = [
        ("cases", f"{sum(sites.values())} to train on, {len(federation.test)} to test on"),
        ("sites", f"{len(sites)}: {', '.join(f'{name} ({n})' for name, n in sites.items())}"),
        ("noise", noise),
        ("method", f"{recipe.method.name}, {recipe.rounds} rounds of {recipe.train.epochs} epochs"),
        ("time", f"about {duration(seconds)} on {worker_count(job, len(sites))} cores"),
        ("wire", f"a site receives {size(received)} and sends {size(network)} per round"),
        ("folder", str(path)),
        *(("NOTE", note) for note in notes_before(job.method, recipe.rounds)),
    ]
    print(f"{recipe.title or path.name}: what would happen (nothing is trained or written)\n")
    for name, words in rows:
        print(f"{name:<10}{words}")


def job_and_data(recipe: Recipe) -> tuple[Job, Federation]:
    """Return job and data; noisy masks take long to draw and change no forecast."""
    federation = clean_federation(recipe)
    annotators = annotators_of(recipe, federation)
    if annotators:  # as they are now, the masks are the truth of the run
        known = {site: asdict(one) for site, one in annotators.items()}
        federation = federation.with_masks(federation.train.masks, annotators=known)
    return job_of(recipe, federation), as_trained(federation, recipe.method.name)


def measure_speed(job: Job, federation: Federation) -> tuple[float, float]:
    """Return seconds per case of one epoch of training and of one scoring; nothing is kept."""
    name = max(federation.names(), key=lambda site: len(federation.sites[site]))
    train = job.recipe.train.model_copy(update={"epochs": 1})
    index = federation.sites[name][: train.batch]
    job = replace(job, recipe=job.recipe.model_copy(update={"train": train}))
    with tempfile.TemporaryDirectory(prefix="feda3i-forecast-") as temporary:
        host = SiteHost(job, federation.train, {name: index}, Path(temporary))
        server = job.server({name: len(index)})
        job.method.start(server)
        plan = job.method.plan(server, 1)
        settings = {**plan.settings, **plan.site_settings.get(name, {})}
        order = Order("fit", 1, name, job.initial, settings, dict(plan.networks.get(name, {})))
        cases = federation.test if len(federation.test) else federation.train
        where = range(min(SCORED, len(cases)))
        fit = _second_time(lambda: host.answer(order))
        score = _second_time(lambda: score_cases(host.predictor, job.initial, cases, where, False))
    return fit / len(index), score / len(where)


def _second_time(work: Callable[[], object]) -> float:
    """Return the seconds that work takes when it is repeated: the first time it also prepares."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def seconds_of_run(job: Job, federation: Federation, train: float, score: float) -> float:
    """Return the time of all rounds and scorings at these seconds per case."""
    recipe, sizes = job.recipe, [len(index) for index in federation.sites.values()]
    workers = worker_count(job, len(sizes))
    # The largest site ends a round.
    trained = max(recipe.engine.fraction * sum(sizes) / workers, max(sizes))
    # The last round also scores the training cases, and a survey looks at them once.
    passes = 1 + bool(job.method.wire.survey)
    scored = math.ceil(recipe.rounds / recipe.evaluate.every) * len(federation.test)
    scored += passes * sum(sizes)
    return recipe.rounds * recipe.train.epochs * trained * train + scored * score / workers


def seconds_of_round(recipe: Recipe) -> float:
    """Return the seconds that one core takes for a round."""
    alone = recipe.engine.model_copy(update={"workers": 1})
    with one_thread():
        job, federation = job_and_data(recipe.model_copy(update={"engine": alone}))
        return seconds_of_run(job, federation, *measure_speed(job, federation)) / recipe.rounds


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(41), duration(600), duration(8000)
    ('41 seconds', '10 minutes', '2.2 hours')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
