"""A fair say for few sites: balance those who draw larger against those who draw smaller.

The paper's rule fits two groups and gives each half of the weight, most of it to its best member.
With few sites a group may hold one of them, which then has half of the weight, and the noisiest of
each group has none. Here no site is silenced or dominates: the weights change as little as it takes
for the weighted offset to lie at the border, within bounds, and the fewer the sites and the less
certain their offsets, the less they change at all.

Where the border lies, there are three guesses. The offsets that a site measures in its images are
absolute but for b0, the few pixels by which good annotators draw outside the border of best
contrast. So with three sites already one can tell who draws near the border and who far off. The
middle between the two ends needs many sites; it is taken alone if the edges cannot tell. The plain
mean of the sites is right only if their errors cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from feda3i.errors import RecipeError
from feda3i.quality.edges import SIDE
from feda3i.quality.numbers import FloatArray
from feda3i.quality.weights import shares

LEAST, MOST = 0.25, 4.0
"""Bounds of a weight, as multiples of the site's share of cases."""
CEILING = 0.4
"""No site gets a larger part of the weight than this, unless its cases alone give it more."""
WIDTH = 0.25
"""Of the Gaussian that prefers sites near the centre, as a part of the range of offsets."""
STEEPEST = 2.0
"""Of the tilt: it parts two sites a tenth of the range apart by a factor of 2.2 at most."""
FEWEST, FEWEST_EDGES = 4, 3
"""With fewer rated sites the middle between the ends is no better a guess than the mean; edges in
the images need three."""
B0, B0_ERROR = 1.0, 4.0
"""Pixels at 256 a side that good annotators draw outside the edge: +3 in dermoscopy, +2 in breast
ultrasound, 0 and -2 in synthetic images, -5 for optic discs."""
ENDS = 2.0
"""The middle between the ends of K sites errs by ENDS / (K + 5) of their range (simulated)."""
LOPSIDED = 0.8
"""The mean of sites errs by this part of their standard deviation: four of five draw alike."""
HESITATION = 0.2
"""A move of the weighted offset counts for less, the nearer it is to its own error."""
LEAST_CORRELATION = 0.8
"""Of the two offsets, from images and from the model's contours, over sites."""
APART = 2.0
"""Standard errors between two guesses of the border from which on they contradict each other."""


@dataclass(frozen=True)
class Border:
    """Where the sites draw and where they should, in pixels.

    Zero is the edge in their images, or the model's contour if the images show none.
    """

    # ``(site,)`` offset of each site and its standard error; ``NaN``: unrated
    places: FloatArray
    errors: FloatArray
    centre: float  # the offset that the weighted sites should have
    trust: float
    """0..1: how much of the way from the mean of the sites to the centre is more than a guess."""
    reason: str = ""  # why nothing should change, if nothing should; otherwise empty


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


def find_border(
    offset: FloatArray,
    error: FloatArray,
    edge: FloatArray,
    edge_error: FloatArray,
    size: FloatArray,
    side: float,
) -> Border | None:
    """Return where the border is by the images' edges; ``None`` if they cannot tell.

    They cannot if fewer than three sites or half of them know their edge offset, if the offsets
    from edges and from the model's contours do not agree about who draws larger, or if the border
    is so far from the middle between the ends that it may be another one than is drawn.

    Arguments are those of ``balance_sites``, as arrays ``(site,)``, with shares of cases as
    ``size``.
    """
    has_edge = np.isfinite(edge) & np.isfinite(edge_error) & (size > 0)
    has_model = np.isfinite(offset) & np.isfinite(error) & (size > 0)
    both, rated = has_edge & has_model, has_edge | has_model
    if both.sum() < max(FEWEST_EDGES, rated.sum() / 2) or not _agree(edge[both], offset[both]):
        return None
    # A site that cannot see the edge is placed by the model's contour, which differs by a constant.
    constant = float(np.median(edge[both] - offset[both]))
    places = np.where(has_edge, edge, np.where(has_model, offset + constant, np.nan))
    errors = np.where(has_edge, edge_error, np.where(has_model, error, np.nan))
    here, share = places[rated], size[rated] / size[rated].sum()
    scale = side / SIDE
    mean, middle = float(share @ here), float(here.min() + here.max()) / 2
    guesses = np.array([B0 * scale, middle, mean])
    doubts = np.array(
        [
            B0_ERROR * scale,
            ENDS / (len(here) + 5) * float(np.ptp(here)),
            LOPSIDED * float(here.std(ddof=1)),
        ]
    )
    if abs(middle - guesses[0]) > APART * math.hypot(doubts[0], doubts[1]):
        return None
    belief = 1 / doubts**2
    centre = float(belief @ guesses / belief.sum())
    way, opposed = guesses[:2] - mean, ""
    if way[0] * way[1] < 0 and abs(way[0]) > doubts[0]:
        opposed = (
            "edges in the images and the middle between the sites point in opposite directions: "
            "everybody keeps the share of cases"
        )
    doubt = HESITATION / float(belief[:2].sum())
    trust = max(0.0, 1.0 - doubt / (centre - mean) ** 2) if centre != mean else 0.0
    if trust == 0.0 and not opposed:
        opposed = "the sites draw near the border on average: everybody keeps the share of cases"
    return Border(places, errors, centre, 0.0 if opposed else trust, opposed)


def _agree(edge: FloatArray, offset: FloatArray) -> bool:
    """Return whether both offsets tell the same sites apart."""
    if not (np.ptp(edge) and np.ptp(offset)):
        return False
    return bool(np.corrcoef(edge, offset)[0, 1] >= LEAST_CORRELATION)


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
        return np.clip(np.exp(log + by), low, high)

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
