"""Offsets of sites beside the middle one, with intervals by the bootstrap over their cases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from feda3i.quality.numbers import FloatArray
from feda3i.seeding import rng

DRAWS = 2000
LEVEL = 0.95
AT_ONCE = 2**22
"""Resampled cases held in memory at a time."""


def resample(values: Sequence[FloatArray], seed: int, scope: str, draws: int = DRAWS) -> FloatArray:
    """Return ``(draw, site)``: medians of cases drawn again with replacement, site by site.

    Deviations from the median are widened by sqrt(n / (n - 1)), because n cases drawn again from n
    spread less than n new ones.
    """
    columns = []
    for number, one in enumerate(values):
        known = np.asarray(one, dtype=np.float64)
        random = rng(seed, "audit", scope, number)
        parts = []
        step = max(1, AT_ONCE // max(len(known), 1))
        for start in range(0, draws, step):
            picks = random.integers(len(known), size=(min(step, draws - start), len(known)))
            parts.append(np.median(known[picks], axis=1))
        middle = float(np.median(known))
        wider = math.sqrt(len(known) / (len(known) - 1)) if len(known) > 1 else math.inf
        columns.append(middle + wider * (np.concatenate(parts) - middle))
    return np.stack(columns, axis=1)


def normal_draws(offset: FloatArray, error: FloatArray, seed: int, scope: str) -> FloatArray:
    """Return ``(draw, site)`` from normal distributions: for sites that sent two numbers only."""
    noise = rng(seed, "audit", scope).standard_normal((DRAWS, len(offset)))
    drawn: FloatArray = offset + error * noise
    return drawn


def beside_middle(offset: FloatArray) -> FloatArray:
    """Return each site's offset less the median of all sites' offsets, along the last axis.

    >>> beside_middle(np.array([1.0, 2.0, 9.0])).tolist()
    [-1.0, 0.0, 7.0]
    """
    relative: FloatArray = offset - np.median(offset, axis=-1, keepdims=True)
    return relative


def interval(draws: FloatArray) -> FloatArray:
    """Return ``(site, 2)``: the ends of the central interval of ``(draw, site)``."""
    tail = (1 - LEVEL) / 2
    return np.quantile(draws, [tail, 1 - tail], axis=0).T


def differ_by_chance(offset: FloatArray, error: FloatArray) -> float:
    """Return the p-value of Cochran's Q: how often sites that draw alike would differ so much."""
    from scipy.stats import chi2

    if len(offset) < 2:
        return 1.0
    if not (error > 0).all():
        return 1.0 if np.ptp(offset) == 0 else 0.0
    weight = 1 / np.square(error)
    mean = float(weight @ offset / weight.sum())
    return float(chi2.sf(float(weight @ np.square(offset - mean)), len(offset) - 1))


def reliability(offset: FloatArray, error: FloatArray) -> float:
    """Return the share of the offsets' spread over sites that is not chance, 0..1."""
    spread = float(offset.var(ddof=1)) if len(offset) > 1 else 0.0
    return max(0.0, 1.0 - float(np.median(np.square(error))) / spread) if spread else 0.0
