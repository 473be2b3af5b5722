"""A fair say for few sites: balance those who draw larger against those who draw smaller.

The paper's rule fits two groups and gives each half of the say, most of it to its best member.
With few sites a group may hold one of them, which then has half of the say, and the noisiest of
each group has none. Here no site is silenced or dominates: the weights change as little as it takes
for the weighted offset to lie in the middle between the two ends, within bounds, and the fewer
the sites and the less certain their offsets, the less they change at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from feda3i.errors import RecipeError
from feda3i.quality.numbers import FloatArray
from feda3i.quality.weights import shares

LEAST, MOST = 0.25, 4.0
"""Bounds of a weight, as multiples of the site's share of cases."""
CEILING = 0.4
"""No site gets a larger part of the say than this, unless its cases alone give it more."""
WIDTH = 0.25
"""Of the Gaussian that prefers sites near the centre, as a part of the range of offsets."""
STEEPEST = 2.0
"""Of the tilt: it parts two sites a tenth of the range apart by a factor of 2.2 at most."""
FEWEST = 4
"""With fewer rated sites the middle between the ends is no better a guess than the mean."""


@dataclass(frozen=True)
class Balance:
    """Balanced weights, and how they came about.

    Parameters
    ----------
    weights
        ``(site,)``, summing to one; an unrated site has its share of cases.
    centre
        The offset, in pixels, that the weighted sites should have on average.
    trust
        0..1: how far the weights moved from the shares of cases towards full balance.
    reason
        The same in words.
    """

    weights: FloatArray
    centre: float
    trust: float
    reason: str


def balance_sites(offset: ArrayLike, error: ArrayLike, counts: ArrayLike) -> Balance:
    """Weigh sites so that, together, they draw as the middle between the two ends does.

    Parameters
    ----------
    offset, error
        ``(site,)`` offset of each site in pixels and its standard error; ``NaN``: unrated.
    counts
        ``(site,)`` number or share of cases.

    >>> few = balance_sites([-4, -3, -3, -2, 8], [0.5] * 5, [8] * 5)
    >>> few.weights.round(2).tolist()  # a site alone on its side counts for more
    [0.09, 0.13, 0.13, 0.3, 0.35]
    """
    size = shares(counts)
    places, errors = (np.asarray(one, dtype=np.float64) for one in (offset, error))
    if places.shape != size.shape or errors.shape != size.shape:
        raise RecipeError(
            f"expected one offset, error and count per site, found shapes {places.shape}, "
            f"{errors.shape} and {size.shape}"
        )
    rated = np.isfinite(places) & np.isfinite(errors) & (size > 0)
    number = int(rated.sum())
    if number < FEWEST:
        why = f"{number} rated sites of at least {FEWEST}: everybody keeps the share of cases"
        return Balance(size, float("nan"), 0.0, why)
    here = places[rated]
    width = float(np.ptp(here))
    centre = float(here.min() + here.max()) / 2
    # The part of the offsets' spread that is not chance, and a part that grows with the sites.
    chance = float(np.median(errors[rated] ** 2)) / float(here.var(ddof=1)) if width else 1.0
    trust = max(0.0, 1.0 - chance) * (1.0 - (2.0 / (number - 1)) ** 2)
    if trust == 0.0:
        why = "the offsets differ no more than by chance: everybody keeps the share of cases"
        return Balance(size, centre, 0.0, why)
    part = size[rated].sum()
    weights = size.copy()
    balanced = part * _balanced(here, centre, WIDTH * width, size[rated] / part)
    weights[rated] = trust * balanced + (1.0 - trust) * size[rated]
    why = f"balanced at offset {centre:+.2f} px of {number} sites, trust {trust:.2f}"
    return Balance(weights / weights.sum(), centre, trust, why)


def _balanced(offset: FloatArray, centre: float, width: float, size: FloatArray) -> FloatArray:
    """Return weights whose mean offset is the centre, or as near as bounds and tilt allow.

    Sites near the centre come first (a Gaussian of the given width), as they wobble least around
    it; an exponential tilt then moves the mean, which changes the weights least in the sense of
    relative entropy.
    """
    away = (offset - centre) / width
    low, high = LEAST * size, np.maximum(size, np.minimum(MOST * size, CEILING))
    log = np.log(size) - away**2 / 2

    def tilted(by: float) -> FloatArray:
        value = log + by * away
        return _within(value - value.max(), low, high)

    tilt = _halve(lambda by: float(tilted(by) @ away), -STEEPEST, STEEPEST)
    return tilted(tilt)


def _within(log: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Scale weights, given by their logarithms, so that within the bounds they sum to one."""

    def scaled(by: float) -> FloatArray:
        clipped: FloatArray = np.clip(np.exp(log + by), low, high)
        return clipped

    weights = scaled(_halve(lambda by: float(scaled(by).sum()) - 1.0, -50.0, 50.0 - log.min()))
    weights /= weights.sum()
    return weights


def _halve(rising: Callable[[float], float], left: float, right: float) -> float:
    """Return where a function that does not fall becomes zero, or the end nearest to it."""
    for _ in range(60):
        middle = (left + right) / 2
        if rising(middle) < 0:
            left = middle
        else:
            right = middle
    return (left + right) / 2
