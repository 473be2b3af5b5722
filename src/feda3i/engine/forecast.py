"""What a run will take, before it starts: time by a short measurement, memory, bytes sent."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from feda3i.core.cases import Federation
from feda3i.core.messages import Order
from feda3i.core.server import IN_MEMORY
from feda3i.engine.job import Job
from feda3i.engine.scoring import score_cases
from feda3i.engine.station import Station
from feda3i.engine.transport import worker_count
from feda3i.simulation.views import as_trained

ENOUGH = 2.0
"""Seconds of measuring after which a step is not repeated any more."""
SCORED = 8
"""Test cases that are scored to see how long one takes."""


@dataclass(frozen=True)
class Speed:
    """Seconds for one case: of one epoch of training, and of one scoring."""

    train: float
    score: float


@dataclass(frozen=True)
class Forecast:
    """What a run will take on this machine.

    ``seconds`` is the time of all rounds and scorings, without the start of processes;
    ``processes`` train sites side by side. Then bytes: the memory of one process, of all cases, and
    of what the server gathers; what a site receives and sends in a round.
    """

    seconds: float
    processes: int
    process_bytes: int
    case_bytes: int
    server_bytes: int
    down: int
    up: int

    @property
    def memory(self) -> int:
        """Return the memory of everything together."""
        return self.processes * self.process_bytes + self.case_bytes + self.server_bytes


def measure_speed(job: Job, federation: Federation) -> Speed:
    """Train one batch of the largest site as the method's first round does, and score some cases.

    Nothing of that is kept.
    """
    federation = as_trained(federation, job.recipe.method.name)
    name = max(federation.names(), key=lambda site: len(federation.sites[site]))
    train = job.recipe.train
    index = federation.sites[name][: train.batch]
    once = job.recipe.model_copy(update={"train": train.model_copy(update={"epochs": 1})})
    job = replace(job, recipe=once)
    with tempfile.TemporaryDirectory(prefix="feda3i-forecast-") as temporary:
        station = Station(job, federation.train, {name: index}, Path(temporary))
        params, server = job.initial, job.server({name: len(index)})
        job.method.start(server)
        plan = job.method.plan(server, 1)
        settings = {**plan.settings, **plan.site_settings.get(name, {})}
        networks = dict(plan.networks.get(name, {}))
        order = Order("fit", 1, name, params, settings, networks)
        # Other work on this machine must not count: on a CPU only our own seconds do.
        clock = time.process_time if station.predictor.device.type == "cpu" else time.perf_counter
        cases = federation.test if len(federation.test) else federation.train
        where = range(min(SCORED, len(cases)))
        spent = _least(lambda: station.answer(order), clock)
        scored = _least(lambda: score_cases(station.predictor, params, cases, where, False), clock)
    return Speed(spent / len(index), scored / len(where))


def _least(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the least time that work takes; the first time it also pays for preparations."""
    times: list[float] = []
    while len(times) < 2 or (sum(times[1:]) < ENOUGH / 4 and sum(times) < ENOUGH):
        started = clock()
        work()
        times.append(clock() - started)
    return min(times[1:])


def forecast(job: Job, federation: Federation, speed: Speed) -> Forecast:
    """Return what the run will take at this speed."""
    federation = as_trained(federation, job.recipe.method.name)
    recipe = job.recipe
    sizes = [len(index) for index in federation.sites.values()]
    processes = worker_count(job, len(sizes))
    # No round ends before its largest site has.
    share = max(sum(sizes) / processes, max(sizes))
    scorings = math.ceil(recipe.rounds / recipe.evaluate.every)
    # The last round also scores the training cases, and a survey looks at them once.
    scored = scorings * len(federation.test) + (1 + bool(job.method.wire.survey)) * sum(sizes)
    measured = sum(job.measures(number) for number in range(1, recipe.rounds + 1))
    scored += measured * sum(sizes)
    layout = job.layout
    network = 4 * layout.size + 8 * layout.integers
    arrays = [federation.train.images, federation.train.masks]
    arrays += [federation.test.images, federation.test.masks]
    case_bytes = sum(array.nbytes for array in arrays)
    return Forecast(
        seconds=recipe.rounds * recipe.train.epochs * share * speed.train
        + scored * speed.score / processes,
        processes=processes,
        process_bytes=max(peak_memory() - case_bytes, 0),
        case_bytes=case_bytes,
        server_bytes=min(len(sizes) * network, IN_MEMORY),
        down=network * (1 + len(job.method.wire.networks) + math.ceil(measured / recipe.rounds)),
        up=network,
    )


def peak_memory() -> int:
    """Return the most bytes that this process has held so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # no such count on this system
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
