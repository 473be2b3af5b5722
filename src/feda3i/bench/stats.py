"""The statistics of a comparison: pure functions on numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.seeding import rng

DRAWS = 4000
"""Resamples of a bootstrap interval."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """Mean and population standard deviation of some values, and how many there are."""

    mean: float
    std: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Return mean and standard deviation (n in the denominator, as the paper has it).

    >>> spread([1.0, 3.0])
    Spread(mean=2.0, std=1.0, count=2)
    """
    array = np.asarray(values, dtype=np.float64)
    return Spread(float(array.mean()), float(array.std()), len(array))


def bootstrap(
    values: ArrayLike, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile interval of the mean when cases are drawn again with replacement.

    >>> low, high = bootstrap([0.0, 1.0] * 50)
    >>> low < 0.5 < high
    True
    """
    array = np.asarray(values, dtype=np.float64)
    index = rng(seed, "bootstrap", len(array)).integers(len(array), size=(draws, len(array)))
    means = array[index].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def wilcoxon(differences: ArrayLike) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; 1 if nothing differs, or nobody.

    Zeros are left out (Wilcoxon's own way); the normal approximation with ties and a correction
    for continuity is used above 50 differences or where there are ties, else the exact
    distribution.
    """
    array = np.asarray(differences, dtype=np.float64)
    array = array[array != 0]
    if not len(array):
        return 1.0
    ranks = rank(np.abs(array))
    plus = float(ranks[array > 0].sum())
    count = len(array)
    has_ties = len(np.unique(np.abs(array))) < count
    if count <= 50 and not has_ties:
        return _exact(plus, count)
    _, ties = np.unique(np.abs(array), return_counts=True)
    middle = count * (count + 1) / 4
    variance = count * (count + 1) * (2 * count + 1) / 24 - float((ties**3 - ties).sum()) / 48
    away = max(abs(plus - middle) - 0.5, 0.0)
    return math.erfc(away / math.sqrt(2 * variance))


def _exact(plus: float, count: int) -> float:
    """Return twice the smaller tail of the sum of positive ranks under equal signs."""
    ways = np.zeros(count * (count + 1) // 2 + 1)
    ways[0] = 1.0
    for number in range(1, count + 1):
        ways[number:] += ways[:-number].copy()
    share = ways / ways.sum()
    least = round(plus)
    tail = min(share[: least + 1].sum(), share[least:].sum())
    return min(1.0, 2 * float(tail))


def holm(values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p values of tests that are looked at together.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    highest = 0.0
    for step, place in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - step) * values[place]))
        adjusted[place] = highest
    return [float(value) for value in adjusted]


def rank(values: ArrayLike) -> Floats:
    """Return ranks from 1 for the least; equal values share the mean of their ranks.

    >>> rank([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    array = np.asarray(values, dtype=np.float64)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: Floats = (last - counts + 1 + last) / 2
    return middle[inverse]


def mean_ranks(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean rank of each method over the settings that have all of them; 1 is best.

    Parameters
    ----------
    scores
        ``{setting: {method: score}}``, higher is better.

    >>> mean_ranks({"a": {"x": 0.9, "y": 0.8}, "b": {"x": 0.7, "y": 0.6}})
    {'x': 1.0, 'y': 2.0}
    """
    methods = list(dict.fromkeys(name for found in scores.values() for name in found))
    whole = [found for found in scores.values() if set(found) == set(methods)]
    if not whole:
        return {}
    ranks = [rank([-found[name] for name in methods]) for found in whole]
    return {name: float(np.mean([one[k] for one in ranks])) for k, name in enumerate(methods)}


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the rank correlation; not a number if one side has no order or there are too few.

    >>> spearman([1, 2, 3], [10, 30, 20])
    0.5
    """
    if len(first) < 2:
        return math.nan
    one, two = rank(first), rank(second)
    if one.std() == 0 or two.std() == 0:
        return math.nan
    centred = (one - one.mean()) @ (two - two.mean())
    return float(round(centred / (len(one) * one.std() * two.std()), 12))


def gap_closed(score: float, floor: float, ceiling: float) -> float:
    """Return the share of the way from FedAvg to clean masks that a method goes.

    Not a number where clean masks are no better: there is no gap to close.

    >>> gap_closed(0.75, 0.7, 0.8)
    0.5
    """
    if ceiling <= floor:
        return math.nan
    return round((score - floor) / (ceiling - floor), 12)


@dataclass(frozen=True)
class Paired:
    """A method against the one it is compared with.

    Attributes
    ----------
    by_seed
        Difference of the last round's Dice for each seed, as ``other - this``: positive if the
        method compared with is better.
    mean, low, high
        Mean difference over test cases (each the mean over seeds) and its bootstrap interval.
    p
        Of Wilcoxon's test over the test cases, not corrected.
    """

    by_seed: dict[int, float]
    mean: float
    low: float
    high: float
    p: float


def compare(
    this: Mapping[int, Mapping[str, float]],
    other: Mapping[int, Mapping[str, float]],
    interval: Callable[[ArrayLike], tuple[float, float]] = bootstrap,
) -> Paired | None:
    """Compare two methods on the seeds and test cases that both have; ``None`` if there are none.

    Parameters
    ----------
    this, other
        ``{seed: {case: Dice}}``
    """
    seeds = sorted(set(this) & set(other))
    cases = [sorted(set(this[seed]) & set(other[seed])) for seed in seeds]
    if not seeds or not cases[0] or any(found != cases[0] for found in cases):
        return None
    table = np.array([[other[s][c] - this[s][c] for c in cases[0]] for s in seeds])
    over_cases = table.mean(axis=0)
    low, high = interval(over_cases)
    means = table.mean(axis=1)
    by_seed = {seed: float(value) for seed, value in zip(seeds, means, strict=True)}
    return Paired(by_seed, float(over_cases.mean()), low, high, wilcoxon(over_cases))
