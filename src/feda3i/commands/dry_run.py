"""``--dry-run`` of ``feda3i run`` and ``feda3i bench``: tell what would happen, and do nothing."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from feda3i.core.cases import Federation
from feda3i.core.messages import Order
from feda3i.engine.host import SiteHost
from feda3i.engine.job import Job
from feda3i.engine.notes import notes_before
from feda3i.engine.run import job_of
from feda3i.engine.transport import one_thread, worker_count
from feda3i.recipe import Recipe
from feda3i.report.html import size
from feda3i.simulation.annotation import annotators_of
from feda3i.simulation.federation import clean_federation
from feda3i.simulation.views import as_trained


def print_forecast(recipe: Recipe, path: Path) -> None:
    """Load the data, time one step, and print what a run would do and take."""
    with one_thread():
        job, federation, mu = job_and_data(recipe)
        sites = {name: len(federation.sites[name]) for name in federation.names()}
        job.check_memory(max(sites.values()))
        seconds = recipe.rounds * seconds_of_round(job, federation)
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


def job_and_data(recipe: Recipe) -> tuple[Job, Federation, list[float]]:
    """Return job, data and the annotators' offsets; no noisy masks: they change no forecast."""
    federation = clean_federation(recipe)
    mu = [annotator.mu for annotator in annotators_of(recipe, federation).values()]
    if mu:  # as they are now, the masks are the truth of the run
        federation = federation.with_masks(federation.train.masks)
    return job_of(recipe, federation), as_trained(federation, recipe.method.name), mu


def seconds_of_round(job: Job, federation: Federation) -> float:
    """Return about how long a round takes; to score a case takes a third of training on it."""
    recipe, sizes = job.recipe, [len(index) for index in federation.sites.values()]
    workers = worker_count(job, len(sizes))
    # The largest site ends a round.
    trained = max(recipe.engine.fraction * sum(sizes) / workers, max(sizes))
    scored = len(federation.test) / recipe.evaluate.every / workers
    return seconds_of_case(job, federation) * (recipe.train.epochs * trained + scored / 3)


def seconds_of_case(job: Job, federation: Federation) -> float:
    """Return the seconds of one epoch of training per case; the result is thrown away."""
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
        host.answer(order)  # the first time it also prepares
        started = time.perf_counter()
        host.answer(order)
        return (time.perf_counter() - started) / len(index)


def duration(seconds: float) -> str:
    """Return a time as people write it: 41 seconds, 10 minutes, 2.2 hours."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
