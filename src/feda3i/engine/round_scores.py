"""The scores of a round: on the validation cases, and on those of the test."""

from __future__ import annotations

import time
from typing import Any

from feda3i.core.messages import Params
from feda3i.core.server import Server
from feda3i.engine.job import Job
from feda3i.engine.loop import summarise_scores
from feda3i.engine.scoring import Row
from feda3i.engine.transport import Transport
from feda3i.engine.validation import BestWatch
from feda3i.log.events import EventLog


def validate_round(
    job: Job, server: Server, transport: Transport, number: int, log: EventLog, watch: BestWatch
) -> dict[str, Any]:
    """Score the global model on the validation cases if it is time; means go into the log."""
    if not watch.is_due(number, job.recipe.rounds):
        return {}
    rows = _rows(transport, job.method.models(server), "validation", False)
    log.write("score", round=number, split="validation", rows=rows)
    return watch.take(number, server.params, rows)


def score_round(
    job: Job, server: Server, transport: Transport, number: int, log: EventLog, is_over: bool
) -> dict[str, float]:
    """Score the global model if this round is one to be scored; every case goes into the log."""
    recipe = job.recipe
    is_last = is_over or number == recipe.rounds
    if number % recipe.evaluate.every and not is_last:
        return {}
    started = time.perf_counter()
    distances = recipe.evaluate.distances or is_last
    models = job.method.models(server)
    rows = _rows(transport, models, "test", distances)
    log.write(
        "score",
        round=number,
        split="test",
        rows=rows,
        seconds=round(time.perf_counter() - started, 3),
    )
    if is_last and not recipe.privacy.on:  # means over a site's own cases have no noise
        rows_at_sites = _rows(transport, models, "train", False)
        if rows_at_sites:
            log.write("score", round=number, split="train", rows=rows_at_sites)
    return summarise_scores(rows)


def _rows(
    transport: Transport, models: dict[str, Params], split: str, distances: bool
) -> list[Row]:
    if len(models) == 1:
        return transport.score(next(iter(models.values())), split, distances)
    return [
        {**row, "model": name}
        for name, params in models.items()
        for row in transport.score(params, split, distances)
    ]
