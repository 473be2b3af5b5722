"""The statistics of a comparison: pure functions on numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from feda3i.seeding import rng

DRAWS = 4000  # resamples of a bootstrap interval


@dataclass(frozen=True)
class Spread:
    """Mean and population standard deviation of some values, and how many there are."""

    mean: float
    std: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Return mean and standard deviation (n in the denominator, as the paper has it)."""
    return Spread(float(np.mean(values)), float(np.std(values)), len(values))


def bootstrap(values: ArrayLike, draws: int = DRAWS) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean when cases are drawn again."""
    array = np.asarray(values, dtype=np.float64)
    index = rng(0, "bootstrap", len(array)).integers(len(array), size=(draws, len(array)))
    low, high = np.quantile(array[index].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return Student's 95 % interval of the mean over seeds; ``None`` with one seed.

    >>> interval([1.0, 2.0, 3.0])
    (-0.484, 4.484)
    """
    if len(values) < 2:
        return None
    reach = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return round(float(np.mean(values) - reach), 3), round(float(np.mean(values) + reach), 3)


def wilcoxon(differences: ArrayLike) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; 1 if nothing differs.

    Exact for few differences without ties, otherwise normal with a correction for continuity.
    """
    array = np.asarray(differences, dtype=np.float64)
    array = array[array != 0]
    return float(stats.wilcoxon(array, correction=True).pvalue) if len(array) else 1.0


def holm(values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p values for a family of tests."""
    array = np.asarray(values, dtype=np.float64)
    order = np.argsort(array, kind="stable")
    steps = np.minimum(1.0, np.arange(len(array), 0, -1) * array[order])
    adjusted = np.empty(len(array))
    adjusted[order] = np.maximum.accumulate(steps)
    return [float(value) for value in adjusted]


def mean_ranks(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean rank of each method over the settings that have all of them; 1 is best."""
    methods = list(dict.fromkeys(name for found in scores.values() for name in found))
    whole = [found for found in scores.values() if set(found) == set(methods)]
    if not whole:
        return {}
    ranks = [stats.rankdata([-found[name] for name in methods]) for found in whole]
    return dict(zip(methods, map(float, np.mean(ranks, axis=0)), strict=True))


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the rank correlation; not a number if one side has no order or there are too few."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return math.nan
    return float(round(stats.spearmanr(first, second).statistic, 12))


@dataclass(frozen=True)
class Paired:
    """A method against the one it is compared with."""

    by_seed: dict[int, float]  # ``other - this``: positive if the one compared with is better
    # Mean difference over test cases (each the mean over seeds) and its bootstrap interval
    mean: float
    low: float
    high: float
    p: float  # of Wilcoxon's test over the test cases, not corrected


def compare(
    this: Mapping[int, Mapping[str, float]], other: Mapping[int, Mapping[str, float]]
) -> Paired | None:
    """Compare two methods by ``{seed: {case: Dice}}`` on what both have; ``None`` if nothing."""
    seeds = sorted(set(this) & set(other))
    cases = [sorted(set(this[seed]) & set(other[seed])) for seed in seeds]
    if not seeds or not cases[0] or any(found != cases[0] for found in cases):
        return None
    table = np.array([[other[s][c] - this[s][c] for c in cases[0]] for s in seeds])
    over_cases = table.mean(axis=0)
    by_seed = dict(zip(seeds, map(float, table.mean(axis=1)), strict=True))
    low, high = bootstrap(over_cases)
    return Paired(by_seed, float(over_cases.mean()), low, high, wilcoxon(over_cases))
