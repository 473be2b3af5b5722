"""Does the second look find bad masks? Against cleanlab on the same predictions, on data at hand.

One case in twenty gets a bad mask: moved, drawn at a wrong scale, an object left out, classes
exchanged where there are two. Two models of the audit, neither of which has seen the masks that it
judges, predict all cases; every method then ranks each site's cases by the same predictions.

    pip install --target CLEANLAB cleanlab
    PYTHONPATH=CLEANLAB python benchmarks/second_look.py --data FOLDER [--noise skin-ns] [--seed 0]

The models are trained with one planting; further ones (--times) use the same predictions, so that a
figure is the mean over more than twenty bad masks.

With --keep FILE, predictions are kept (or read if they are there), so that rules can be compared
without training again.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i import recipe
from feda3i.audit.case_rows import measure_cases, second_looks
from feda3i.audit.cross_fit import folds_of, train, warm_up_recipe
from feda3i.core.cases import Federation
from feda3i.core.predictor import label_map
from feda3i.engine.console import Silent
from feda3i.engine.transport import one_thread
from feda3i.geometry import label_components
from feda3i.metrics import dice
from feda3i.seeding import rng
from feda3i.simulation.federation import federation_of

SHARE = 0.05
Mask = NDArray[np.uint8]
Scores = NDArray[np.float64]
"""By case: the larger, the more suspect."""


def moved(mask: Mask, draw: np.random.Generator) -> Mask:
    """Move a mask by a quarter to a half of its object's diameter in any direction."""
    far = draw.uniform(0.25, 0.5) * 2 * np.sqrt((mask > 0).sum() / np.pi)
    turn = draw.uniform(0, 2 * np.pi)
    return _warped(mask, 1.0, far * np.cos(turn), far * np.sin(turn))


def scaled(mask: Mask, draw: np.random.Generator) -> Mask:
    """Draw a mask at 75 to 90 or 110 to 125 % of its size, from the upper left corner."""
    factor = 1 + draw.choice([-1, 1]) * draw.uniform(0.1, 0.25)
    return _warped(mask, factor, 0.0, 0.0)


def _warped(mask: Mask, factor: float, right: float, down: float) -> Mask:
    matrix = np.array([[factor, 0, right], [0, factor, down]])
    size = mask.shape[1], mask.shape[0]
    return np.asarray(cv2.warpAffine(mask, matrix, size, flags=cv2.INTER_NEAREST), np.uint8)


def omitted(mask: Mask, draw: np.random.Generator) -> Mask:
    """Leave out one object, a random one of several."""
    parts, count = label_components((mask > 0).view(np.uint8))
    return np.where(parts == draw.integers(1, count + 1), 0, mask).astype(np.uint8)


def swapped(mask: Mask, draw: np.random.Generator) -> Mask:
    """Exchange the classes in turn."""
    return np.where(mask > 0, mask % mask.max() + 1, 0).astype(np.uint8)


def plant(federation: Federation, seed: int) -> tuple[Federation, list[str]]:
    """Return the federation with bad masks, and by case what was done to it."""
    masks = np.array(federation.train.masks)
    kinds: dict[str, Callable[[Mask, np.random.Generator], Mask]]
    kinds = {"moved": moved, "scaled": scaled, "omitted": omitted}
    if len(federation.classes) > 1:
        kinds["swapped"] = swapped
    drawn = np.flatnonzero(masks.reshape(len(masks), -1).any(axis=1))
    chosen = rng(seed, "plant").permutation(drawn)[: round(SHARE * len(masks))]
    done = [""] * len(masks)
    for number, case in enumerate(chosen.tolist()):
        done[case] = list(kinds)[number % len(kinds)]
        masks[case] = kinds[done[case]](masks[case], rng(seed, "planted", case))
    return replace(federation, train=replace(federation.train, masks=masks)), done


def predict(base: recipe.Recipe, federation: Federation, steps: int) -> NDArray[np.float32]:
    """Return ``(case, class, *space)`` by models that have not seen the case's mask."""
    warm = warm_up_recipe(base, federation, steps)
    shape = federation.train.masks.shape
    found = np.zeros((shape[0], len(federation.classes), *shape[1:]), np.float32)
    with one_thread():
        for fold in folds_of(federation, base.seed):
            model = train(warm, replace(federation, sites=fold), Silent())
            rest = np.setdiff1d(np.arange(shape[0]), np.concatenate(list(fold.values())))
            found[rest] = model.probabilities(federation.train.images[rest])
    return found


def by_audit(federation: Federation, chances: NDArray[np.float32]) -> Scores:
    """Return the audit's ranks, each site's own."""
    place = {int(i): site for site, index in federation.sites.items() for i in index}
    sites = [place[i] for i in range(len(federation.train))]
    rows = measure_cases(
        federation.train, sites, label_map(chances), classes=len(federation.classes)
    )
    score = np.zeros(len(sites))
    where = {case: k for k, case in enumerate(federation.train.ids)}
    for site in federation.names():
        looks = second_looks([row for row in rows if row.site == site], "px")
        for rank, look in enumerate(looks, 1):
            case = where[look.row.case]
            score[case] = max(score[case], 1 / rank)
    return score


def by_dice(federation: Federation, chances: NDArray[np.float32]) -> Scores:
    """Return one less the mean Dice of mask and prediction over the classes."""
    masks, guess = np.asarray(federation.train.masks), label_map(chances)
    values = range(1, len(federation.classes) + 1)
    each = [
        [dice(two == k, one == k) for k in values] for one, two in zip(masks, guess, strict=True)
    ]
    return np.asarray(1 - np.nan_to_num(np.array(each), nan=1.0).mean(axis=1))


def by_cleanlab(method: str) -> Callable[[Federation, NDArray[np.float32]], Scores]:
    """Return cleanlab's score of segmentation masks, by a method of its own."""

    def score(federation: Federation, chances: NDArray[np.float32]) -> Scores:
        try:
            rank = import_module("cleanlab.segmentation.rank")
        except ImportError as error:
            raise SystemExit(
                f"expected cleanlab, found none ({error}): pip install --target CLEANLAB cleanlab, "
                f"then PYTHONPATH=CLEANLAB"
            ) from None
        every = np.concatenate([1 - chances.max(axis=1, keepdims=True), chances], axis=1)
        every /= every.sum(axis=1, keepdims=True)
        options: dict[str, Any] = {"verbose": False, "n_jobs": 1}
        if method == "num_pixel_issues":
            options["downsample"] = 1
        labels = np.asarray(federation.train.masks).astype(np.int64)
        of_cases, _ = rank.get_label_quality_scores(labels, every, method=method, **options)
        return 1 - np.asarray(of_cases, np.float64)

    return score


METHODS = {
    "audit": by_audit,
    "cleanlab, pixel issues": by_cleanlab("num_pixel_issues"),
    "cleanlab, softmin": by_cleanlab("softmin"),
    "Dice to the model": by_dice,
}


def first(federation: Federation, score: Scores, share: float) -> NDArray[np.intp]:
    """Return the cases that lie in the first share of their site's list."""
    found = []
    for name in federation.names():
        index = np.asarray(federation.sites[name])
        order = index[np.argsort(-score[index], kind="stable")]
        found.append(order[: round(share * len(index))])
    return np.concatenate(found)


Figures = dict[str, list[float]]


def measure(federation: Federation, done: list[str], score: Scores, into: Figures) -> None:
    """Add one planting's precision and recall, and the share found of every kind of error."""
    is_bad = np.array([bool(kind) for kind in done])
    top, wide = (first(federation, score, part) for part in (SHARE, 2 * SHARE))
    found = {"precision in 5 %": is_bad[top].mean(), "recall in 5 %": is_bad[top].sum()}
    found["recall in 10 %"] = is_bad[wide].sum()
    for kind in sorted(set(done) - {""}):
        found[kind] = sum(done[k] == kind for k in top) / done.count(kind)
    for name in ("recall in 5 %", "recall in 10 %"):
        found[name] /= is_bad.sum()
    for name, value in found.items():
        into.setdefault(name, []).append(float(value))


def table(plantings: list[tuple[Federation, list[str]]], chances: NDArray[np.float32]) -> str:
    """Return the mean figures of every method as a Markdown table."""
    figures: dict[str, Figures] = {name: {} for name in METHODS}
    for federation, done in plantings:
        for name, rank in METHODS.items():
            measure(federation, done, rank(federation, chances), figures[name])
    head = ["ranked by", *next(iter(figures.values()))]
    lines = [head, ["---"] * len(head)]
    for name, found in figures.items():
        lines.append([name, *(f"{np.mean(each):.2f}" for each in found.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Plant, train or read predictions, rank, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder, or a built-in data set")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--sites", type=int, default=5)
    parser.add_argument("--cases", type=int, default=80, help="cases of each site")
    parser.add_argument("--noise", default="none", help="a noise setting of all sites beneath")
    parser.add_argument("--steps", type=int, default=250, help="optimiser steps of a site")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--times", type=int, default=10, help="plantings among these predictions; models saw one"
    )
    parser.add_argument("--keep", type=Path, help="file (.npy) of predictions to write or read")
    given = parser.parse_args()
    changes = [
        f"seed={given.seed}",
        f"data={given.data}",
        f"data.size={given.size}",
        f"data.sites={given.sites}",
        f"data.cases={given.cases}",
        "data.test=10",
        "model.width=8",
        "train.batch=8",
        "engine.workers=1",
        *(
            ["noise.name=none"]
            if given.noise == "none"
            else [f"noise.setting={given.noise}", "noise.name=contour"]
        ),
    ]
    base = recipe.load(None, changes)
    clean = federation_of(base)
    federation, done = plant(clean, given.seed)
    started = time.perf_counter()
    if given.keep and given.keep.exists():
        chances = np.load(given.keep)
    else:
        chances = predict(base, federation, given.steps)
        if given.keep:
            np.save(given.keep, chances)
    guess = label_map(chances)
    agree = np.median(
        [dice(a > 0, b > 0) for a, b in zip(guess, federation.train.masks, strict=True)]
    )
    print(
        f"{Path(given.data).name}, {len(done)} cases of {given.size} px, {given.sites} sites, "
        f"noise {given.noise}, seed {given.seed}; {len(done) - done.count('')} bad masks in "
        f"each of {given.times} plantings; "
        f"median Dice of masks and models {agree:.3f}; {time.perf_counter() - started:.0f} s; "
        f"{platform.machine()}, {os.cpu_count()} cores\n"
    )
    more = [plant(clean, 1000 + k) for k in range(given.times - 1)]
    print(table([(federation, done), *more], chances))


if __name__ == "__main__":
    main()
