"""A fair say for few sites: balance those who draw larger against those who draw smaller.

The paper's rule fits two groups and gives each half of the say, most of it to its best member.
With few sites a group may hold one of them, which then has half of the say, and the noisiest of
each group has none. Here no site is silenced or dominates: the weights change as little as it takes
for the weighted offset to lie at the border, within bounds, and the fewer the sites and the less
certain their offsets, the less they change at all. Where the border is, the edges in the images
tell (``border``); if these cannot, it is taken to be the middle between the two ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from feda3i.errors import RecipeError
from feda3i.quality.border import Border, find_border
from feda3i.quality.edges import SIDE
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
"""With fewer rated sites the middle between the ends is no better a guess than the mean; edges in
the images need three."""


@dataclass(frozen=True)
class Balance:
    """Balanced weights, and how they came about."""

    weights: FloatArray  # ``(site,)``, summing to one; an unrated site has its share of cases
    centre: float  # the offset, in pixels, that the weighted sites should have on average
    trust: float  # 0..1: how far the weights moved from the shares of cases towards full balance
    reason: str  # the same in words
    places: FloatArray
    """``(site,)``: where each site draws, in the pixels of ``centre``; ``NaN`` if unrated."""


def balance_sites(
    offset: ArrayLike,
    error: ArrayLike,
    counts: ArrayLike,
    edge: ArrayLike | None = None,
    edge_error: ArrayLike | None = None,
    side: float = SIDE,
) -> Balance:
    """Weigh sites so that, together, they draw at the border, as far as that can be told.

    Parameters
    ----------
    offset, error
        ``(site,)`` offset of each site from the model's contours in pixels and its standard error;
        ``NaN``: unrated.
    counts
        ``(site,)`` number or share of cases.
    edge, edge_error
        The same from the borders that the sites' images show; ``NaN``: cannot tell. Without them
        the border is taken to be the middle between the two ends.
    side
        Longest side of the images in pixels; edges need it.

    >>> few = balance_sites([-4, -3, -3, -2, 8], [0.5] * 5, [8] * 5)
    >>> few.weights.round(2).tolist()  # a site alone on its side counts for more
    [0.09, 0.13, 0.13, 0.3, 0.35]
    >>> balance_sites([-9, 1, 11], [1] * 3, [8] * 3, [1, 11, 21], [1] * 3).weights.round(2).tolist()
    [0.39, 0.39, 0.21]
    """
    size = shares(counts)
    unknown = np.full(size.shape, np.nan)
    edges = (unknown if one is None else one for one in (edge, edge_error))
    known = [np.asarray(one, dtype=np.float64) for one in (offset, error, *edges)]
    if any(one.shape != size.shape for one in known):
        shapes = ", ".join(str(one.shape) for one in known)
        raise RecipeError(
            f"expected one offset, error and count per site, found shapes {shapes} and {size.shape}"
        )
    model, model_error, image, image_error = known
    border = find_border(model, model_error, image, image_error, size, side)
    words = "balanced by the edges in the images at offset"
    if border is None:
        border, words = _middle(model, model_error, size), "balanced at offset"
    rated = np.isfinite(border.places) & np.isfinite(border.errors) & (size > 0)
    here = border.places[rated]
    trust = 0.0
    if border.trust > 0.0 and (width := float(np.ptp(here))) > 0.0:
        # The part of the offsets' spread that is not chance.
        chance = float(np.median(border.errors[rated] ** 2)) / float(here.var(ddof=1))
        trust = max(0.0, 1.0 - chance) * border.trust
    if trust == 0.0:
        chance_words = (
            "the offsets differ no more than by chance: everybody keeps the share of cases"
        )
        return Balance(size, border.centre, 0.0, border.reason or chance_words, border.places)
    part = size[rated].sum()
    weights = size.copy()
    balanced = part * _balanced(here, border.centre, WIDTH * width, size[rated] / part)
    weights[rated] = trust * balanced + (1.0 - trust) * size[rated]
    why = f"{words} {border.centre:+.2f} px of {len(here)} sites, trust {trust:.2f}"
    return Balance(weights / weights.sum(), border.centre, trust, why, border.places)


def _middle(offset: FloatArray, error: FloatArray, size: FloatArray) -> Border:
    """Return the middle between the ends as centre, trusted the more, the more sites there are."""
    rated = np.isfinite(offset) & np.isfinite(error) & (size > 0)
    number = int(rated.sum())
    if number < FEWEST:
        why = f"{number} rated sites of at least {FEWEST}: everybody keeps the share of cases"
        return Border(offset, error, float("nan"), 0.0, why)
    centre = float(offset[rated].min() + offset[rated].max()) / 2
    trust = 1.0 - (2.0 / (number - 1)) ** 2
    return Border(offset, error, centre, trust)


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
