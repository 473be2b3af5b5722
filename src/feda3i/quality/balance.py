"""FedA3I's safe rule: balance those who draw larger against those who draw smaller.

No site is silenced or dominates: the weights change as little as it takes for the weighted offset
to lie at the border, within bounds, and the fewer the sites and the less certain their offsets, the
less they change at all. Where the border lies, there are three guesses: B0 pixels outside the edges
in the images, as good annotators draw; the middle between the two ends, which needs many sites and
is taken alone if the edges cannot tell; the plain mean, right only if the sites' errors cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from feda3i.quality.edges import SIDE
from feda3i.quality.numbers import FloatArray
from feda3i.quality.rating import Part, Rating, by_class
from feda3i.quality.survey import SiteSurvey
from feda3i.quality.weights import Grouping, shares

LEAST, MOST = 0.25, 4.0  # bounds of a weight, as multiples of the site's share of cases
CEILING = 0.4  # of a site's weight, unless its cases alone give it more
WIDTH = 0.25  # of the Gaussian that prefers sites near the centre, in ranges of offsets
STEEPEST = 2.0  # tilt: it parts two sites a tenth of the range apart by a factor of 2.2 at most
FEWEST, FEWEST_EDGES = 4, 3  # rated sites that a middle between the ends, and that edges need
B0, B0_ERROR = 1.0, 4.0  # px at 256 that good annotators draw outside the edge (-5 to +3 so far)
ENDS = 2.0  # the middle between the ends of K sites errs by ENDS / (K + 5) of their range
LOPSIDED = 0.8  # the mean of sites errs by this part of their deviation: four of five draw alike
HESITATION = 0.2  # a move of the weighted offset counts for less, the nearer it is to its error
LEAST_CORRELATION = 0.8  # over sites, of the offsets from images and from the model's contours
APART = 2.0  # standard errors from which on two guesses of the border contradict each other


class Balance(NamedTuple):
    """Where sites draw and where they should, in pixels, and the weights that come of it."""

    # ``(site,)`` offset of each site and its standard error; ``NaN``: unrated
    places: FloatArray
    errors: FloatArray
    centre: float  # the offset that the weighted sites should have on average
    trust: float  # 0..1: how far the weights move from the shares of cases towards full balance
    reason: str  # the same in words, or why nothing changes
    weights: FloatArray  # ``(site,)``, summing to one; an unrated site has its share of cases


def balance_by_offset(
    surveys: Mapping[str, SiteSurvey | None], counts: Mapping[str, float], side: float = SIDE
) -> Rating:
    """Weigh all sites by ``balance_sites``, for every class.

    ``surveys`` are what each site found, with offsets (``None`` for a site that could not be
    asked), ``counts`` the cases of every site, ``side`` the longest side of the images in pixels.
    """
    sites, parts = tuple(surveys), []
    columns = (by_class(surveys, name) for name in ("q", "offset", "edge"))
    for number, (q, offset, edge) in enumerate(zip(*columns, strict=True), start=1):
        quantity = [counts[name] for name in sites]
        found = balance_sites(offset[:, 0], offset[:, 1], quantity, edge[:, 0], edge[:, 1], side)
        groups = _sides(found)
        rated = groups.is_rated()
        weights = np.where(rated, found.weights, 0.0) if rated.any() else found.weights
        parts.append(Part(number, q, groups, weights, offset, edge))
    return Rating(sites, tuple(parts))


def _sides(found: Balance) -> Grouping:
    """Return on which side of the centre each site draws, and how far from it."""
    rated = np.isfinite(found.places)
    middle = np.median(found.places[rated]) if rated.any() else 0.0
    away = found.places - (found.centre if np.isfinite(found.centre) else middle)
    labels = np.where(rated, np.where(away > 0, "larger", "smaller"), "unrated").tolist()
    unknown = np.full(len(away), np.nan)
    return Grouping(tuple(labels), unknown, np.abs(away), "balance", found.reason)


def balance_sites(
    offset: ArrayLike,
    error: ArrayLike,
    counts: ArrayLike,
    edge: ArrayLike | None = None,
    edge_error: ArrayLike | None = None,
    side: float = SIDE,
) -> Balance:
    """Weigh sites so that, together, they draw at the border, as far as that can be told.

    All arrays are ``(site,)``: ``offset`` and ``error`` how far a site draws outside the model's
    contours, in pixels, and the standard error of that, ``edge`` and ``edge_error`` the same by the
    edges in its images; ``NaN`` where it cannot be told. ``side`` is the longest side of the
    images in pixels.

    >>> few = balance_sites([-4, -3, -3, -2, 8], [0.5] * 5, [8] * 5)
    >>> few.weights.round(2).tolist()  # a site alone on its side counts for more
    [0.09, 0.13, 0.13, 0.3, 0.35]
    >>> balance_sites([-9, 1, 11], [1] * 3, [8] * 3, [1, 11, 21], [1] * 3).weights.round(2).tolist()
    [0.39, 0.39, 0.21]
    """
    size = shares(counts)
    unknown = np.full(size.shape, np.nan)
    model, model_error, image, image_error = (
        np.asarray(unknown if one is None else one, dtype=np.float64)
        for one in (offset, error, edge, edge_error)
    )
    found = _by_edges(model, model_error, image, image_error, size, side)
    words = "balanced by the edges in the images at offset"
    if found is None:
        found, words = _middle(model, model_error, size), "balanced at offset"
    rated = np.isfinite(found.places) & np.isfinite(found.errors) & (size > 0)
    here, trust = found.places[rated], 0.0
    if found.trust > 0.0 and np.ptp(here) > 0.0:
        # The part of the offsets' spread that is not chance.
        chance = float(np.median(found.errors[rated] ** 2)) / float(here.var(ddof=1))
        trust = max(0.0, 1.0 - chance) * found.trust
    if trust == 0.0:
        why = "the offsets differ no more than by chance: everybody keeps the share of cases"
        return found._replace(trust=0.0, reason=found.reason or why)
    part = size[rated].sum()
    weights = size.copy()
    balanced = part * _balanced(here, found.centre, size[rated] / part)
    weights[rated] = trust * balanced + (1.0 - trust) * size[rated]
    why = f"{words} {found.centre:+.2f} px of {len(here)} sites, trust {trust:.2f}"
    return found._replace(weights=weights / weights.sum(), trust=trust, reason=why)


def _by_edges(
    offset: FloatArray,
    error: FloatArray,
    edge: FloatArray,
    edge_error: FloatArray,
    size: FloatArray,
    side: float,
) -> Balance | None:
    """Return where the border is by the images' edges; ``None`` if they cannot tell.

    They cannot if fewer than three sites or half of them know their edge offset, if the offsets
    from edges and from the model's contours do not agree about who draws larger, or if the border
    is so far from the middle between the ends that it may be another one than is drawn.
    """
    has_edge = np.isfinite(edge) & np.isfinite(edge_error) & (size > 0)
    has_model = np.isfinite(offset) & np.isfinite(error) & (size > 0)
    both, rated = has_edge & has_model, has_edge | has_model
    if both.sum() < max(FEWEST_EDGES, rated.sum() / 2):
        return None
    pair = edge[both], offset[both]
    if np.ptp(pair, axis=1).min() == 0 or np.corrcoef(*pair)[0, 1] < LEAST_CORRELATION:
        return None
    # A site that cannot see the edge is placed by the model's contour, which differs by a constant.
    constant = float(np.median(edge[both] - offset[both]))
    places = np.where(has_edge, edge, np.where(has_model, offset + constant, np.nan))
    errors = np.where(has_edge, edge_error, np.where(has_model, error, np.nan))
    here, share = places[rated], size[rated] / size[rated].sum()
    scale = side / SIDE
    mean, middle = float(share @ here), float(here.min() + here.max()) / 2
    guesses = np.array([B0 * scale, middle, mean])
    ends = ENDS / (len(here) + 5) * float(np.ptp(here))
    doubts = np.array([B0_ERROR * scale, ends, LOPSIDED * float(here.std(ddof=1))])
    if abs(middle - guesses[0]) > APART * math.hypot(doubts[0], doubts[1]):
        return None
    belief = 1 / doubts**2
    centre = float(belief @ guesses / belief.sum())
    doubt = HESITATION / float(belief[:2].sum())
    trust = max(0.0, 1.0 - doubt / (centre - mean) ** 2) if centre != mean else 0.0
    way, why = guesses[:2] - mean, ""
    if way[0] * way[1] < 0 and abs(way[0]) > doubts[0]:
        why = "edges in the images and the middle between the sites point in opposite directions"
    elif trust == 0.0:
        why = "the sites draw near the border on average"
    if why:
        trust, why = 0.0, f"{why}: everybody keeps the share of cases"
    return Balance(places, errors, centre, trust, why, size)


def _middle(offset: FloatArray, error: FloatArray, size: FloatArray) -> Balance:
    """Return the middle between the ends as centre, trusted the more, the more sites there are."""
    rated = np.isfinite(offset) & np.isfinite(error) & (size > 0)
    number = int(rated.sum())
    if number < FEWEST:
        why = f"{number} rated sites of at least {FEWEST}: everybody keeps the share of cases"
        return Balance(offset, error, math.nan, 0.0, why, size)
    centre = float(offset[rated].min() + offset[rated].max()) / 2
    trust = 1.0 - (2.0 / (number - 1)) ** 2
    return Balance(offset, error, centre, trust, "", size)


def _balanced(offset: FloatArray, centre: float, size: FloatArray) -> FloatArray:
    """Return weights whose mean offset is the centre, or as near as bounds and tilt allow.

    Sites near the centre come first (by a Gaussian), as they wobble least around it; an exponential
    tilt then moves the mean, which changes the weights least in the sense of relative entropy.
    """
    away = (offset - centre) / (WIDTH * float(np.ptp(offset)))
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
    return np.asarray(weights / weights.sum())


def _halve(rising: Callable[[float], float], left: float, right: float) -> float:
    """Return where a function that does not fall becomes zero, or the end nearest to it."""
    for _ in range(60):
        middle = (left + right) / 2
        if rising(middle) < 0:
            left = middle
        else:
            right = middle
    return (left + right) / 2
