"""A model that has not seen the masks it judges: a short FedAvg on one half of every site's cases.

A model trained on a site's masks learns to repeat them, and then finds nothing wrong with them. So
the cases of every site are divided in two, two models are trained, and each judges the half that
it has not seen; cases that neither has seen are judged by the mean of both.
"""

import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Cases, Federation, Index
from feda3i.core.predictor import Predictor, label_map
from feda3i.core.ragged import Stack, zeros_like
from feda3i.engine.console import Listener
from feda3i.engine.loop import Round
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport
from feda3i.quality.objects import sure_objects
from feda3i.recipe import Recipe, validate
from feda3i.seeding import rng

STEPS = 250  # optimiser steps of a site of median size: with fewer, a survey says nothing
ROUNDS = 10
FOLDS = 2
AT_ONCE = 64  # images predicted together


@dataclass(frozen=True)
class Predicted:
    """What models draw, and of that only the objects that they are sure of."""

    masks: Stack
    sure: Stack


def predicted_masks(cases: Cases, answers: Iterable[tuple[int, NDArray[np.float32]]]) -> Predicted:
    """Return masks of cases from places and probabilities ``(class, *space)``."""
    masks, sure = zeros_like(cases.masks), zeros_like(cases.masks)
    for place, probabilities in answers:
        masks[place] = mask = label_map(probabilities[None])[0]
        sure[place] = sure_objects(mask, probabilities)
    return Predicted(masks, sure)


def warm_up_recipe(recipe: Recipe, federation: Federation, steps: int = STEPS) -> Recipe:
    """Return a recipe of plain averaging, about this many steps at a site of median size."""
    plain = recipe.to_dict()
    middling = float(np.median([len(index) for index in federation.sites.values()]))
    half = max(1, int(middling / FOLDS))
    batch = min(recipe.train.batch, max(1, half // 2))
    epochs = max(1, round(steps / ROUNDS / math.ceil(half / batch)))
    rounds = max(2, math.ceil(steps / (epochs * math.ceil(half / batch))))
    plain["method"], plain["methods"], plain["redraw"] = {"name": "fedavg"}, {}, {}
    plain["rounds"] = min(rounds, ROUNDS) if epochs > 1 else rounds
    plain["train"] = {**plain["train"], "batch": batch, "epochs": epochs}
    return validate(plain)


def folds_of(federation: Federation, seed: int) -> list[dict[str, Index]]:
    """Divide every site's cases at random; a site of one case has it in the first fold only."""
    folds: list[dict[str, Index]] = [{} for _ in range(FOLDS)]
    for site in federation.names():
        index = np.asarray(federation.sites[site])
        order = rng(seed, "audit folds", site).permutation(len(index))
        for number, fold in enumerate(folds):
            part = np.sort(index[order[number::FOLDS]])
            if len(part):
                fold[site] = part
    return folds


def train(recipe: Recipe, federation: Federation, listener: Listener) -> Predictor:
    """Train from the start, without a run folder; return the model."""
    job = job_of(recipe, federation)
    with tempfile.TemporaryDirectory(prefix="feda3i-audit-") as folder:
        transport = LocalTransport(job, federation, Path(folder))
        server = job.server(transport.sites())
        listener.begin(recipe.title or "audit", recipe.rounds, 0)
        try:
            for number in range(1, recipe.rounds + 1):
                listener.round(Round(job, server, transport, number, listener, Path(folder)).run())
        finally:
            listener.end()
            transport.close()
    return job.predictor().load(server.params)


def cross_predict(
    recipe: Recipe, federation: Federation, trusted: Cases | None, listener: Listener
) -> tuple[Predicted, Predicted | None]:
    """Return predictions for all training cases, and for trusted ones, by models new to them."""
    folds, models = folds_of(federation, recipe.seed), []
    for number, fold in enumerate(folds, 1):
        named = recipe.model_copy(update={"title": f"model {number} of {len(folds)}"})
        models.append(train(named, replace(federation, sites=fold), listener))
    every = np.arange(len(federation.train))
    new = [np.setdiff1d(every, np.concatenate(list(fold.values()))) for fold in folds]
    pairs = zip(models, new, strict=True)
    found = predicted_masks(
        federation.train,
        chain.from_iterable(_answers(model, federation.train, where) for model, where in pairs),
    )
    if trusted is None:
        return found, None
    both = zip(*(model.probabilities(trusted.images) for model in models), strict=True)
    means = (np.asarray(sum(each) / np.float32(len(folds))) for each in both)
    return found, predicted_masks(trusted, enumerate(means))


def predict_all(model: Predictor, cases: Cases) -> Predicted:
    """Return what a model would draw."""
    return predicted_masks(cases, _answers(model, cases, np.arange(len(cases))))


def _answers(
    model: Predictor, cases: Cases, where: Index
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield place and probabilities of the cases at these places, predicted some at a time."""
    for start in range(0, len(where), AT_ONCE):
        part = where[start : start + AT_ONCE]
        yield from zip(part.tolist(), model.probabilities(cases.images[part]), strict=True)
