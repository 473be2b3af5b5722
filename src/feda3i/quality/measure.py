"""A site's offset with its standard error, or the reason why it cannot be told.

``measure_edges`` looks at the images, ``contour_offset`` at the contours that a model predicts.
Both carry a constant: annotators who draw well do not draw on the border of best contrast exactly,
and a model draws as its sites do on average. Trusted masks tell it (``site_effects``); without
these an offset tells how sites differ, and little about all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from feda3i.geometry import box_around, relative_sizes, signed_distance, touched_faces
from feda3i.quality.edges import SIDE, WEAKEST, Evidence, colour_profile, longest_side
from feda3i.quality.numbers import FloatArray
from feda3i.seeding import rng

FEWEST = 8  # cases: with four, one odd image decides
SECOND = 0.5  # a second border with this share of the first one's evidence may be the meant one
VALLEY = 0.9  # between two borders the evidence falls below this share of the lower one's
HIGH, WIDEST = 0.95, 15  # a peak this wide (pixels at 256) at this height has no clear place
FARTHEST = 8.0  # pixels at 256: trusted masks farther from the edge follow another border
DRAWS = 64  # of the bootstrap; the jackknife erred by a factor of two either way
ON_BORDER = 1.0  # pixels on either side lie at -0.5 and +0.5, diagonal neighbours at 0.91
SMALLEST_ERROR = 0.1  # pixels of the image: distances between pixels come in steps


@dataclass(frozen=True)
class Offset:
    """How far one site draws outside a border, on average over its cases, in pixels."""

    offset: float  # negative if it draws inside; ``NaN`` if it cannot be told
    error: float  # its standard error; ``NaN`` if it cannot be told
    cases: int  # cases that contributed
    reason: str = ""  # why it cannot be told; empty if it can
    radius: float = math.nan  # inner radius of the drawn objects, median over cases

    @property
    def is_known(self) -> bool:
        """Return whether there is an answer."""
        return not self.reason

    @classmethod
    def unknown(cls, cases: int, reason: str) -> Offset:
        """Return the answer "cannot tell"."""
        return cls(math.nan, math.nan, cases, reason)

    def __post_init__(self) -> None:
        if self.is_known and not (math.isfinite(self.offset) and math.isfinite(self.error)):
            raise ValueError(f"expected finite numbers or a reason, found {self}")


def rescaled(one: Offset, by: float) -> Offset:
    """Return an offset in another unit, ``by`` of which are one pixel of this one's."""
    return replace(one, offset=one.offset * by, error=one.error * by, radius=one.radius * by)


def measure_edges(
    images: Iterable[ArrayLike], masks: Iterable[ArrayLike], spacing: ArrayLike | None = None
) -> Offset:
    """Return how far a site's masks were drawn outside the borders that its images show.

    The evidence of all cases is added before the best shift is looked for. It cannot be told with
    fewer than eight cases with a contour, if no border stands out, if another one stands out half
    as much, or if the border is too diffuse to have a place.

    Parameters
    ----------
    images
        ``(case, *space)`` or ``(case, *space, channel)``, values of 0..255; lists may hold several
        sizes, which share their offset relative to the longest side of each.
    masks
        ``(case, *space)``, not zero inside.
    spacing
        ``(case, dimension)`` size of a pixel along each axis; ``None`` if all are equal.

    Returns
    -------
    offset
        In pixels (of the smallest side) of the case with the median longest side.

    >>> yy, xx = np.mgrid[:64, :64] - 32
    >>> away = np.stack([np.hypot(yy, xx + k) for k in range(8)])
    >>> round(measure_edges(200 - 100 * (away < 14), away < 16).offset)
    2
    """
    seen, drawn = ([*map(np.asarray, stack)] for stack in (images, masks))
    sizes = [None] * len(drawn) if spacing is None else np.asarray(spacing, float).tolist()
    found = [colour_profile(*case) for case in zip(seen, drawn, sizes, strict=True)]
    sides = [longest_side(mask.shape, one) for mask, one in zip(drawn, sizes, strict=True)]
    measured = measure_profiles([one for one in found if one is not None])
    own = rescaled(measured, float(np.median(sides)) / SIDE if sides else 1.0)
    return replace(own, error=max(own.error, SMALLEST_ERROR)) if own.is_known else own


def measure_profiles(profiles: Sequence[FloatArray]) -> Offset:
    """Return the offset that a site's colour profiles tell, in pixels at 256."""
    number = len(profiles)
    if number < FEWEST:
        return Offset.unknown(number, f"{number} cases with a contour, {FEWEST} are needed")
    evidence = Evidence(profiles)
    reason = _doubt(evidence)
    if reason:
        return Offset.unknown(number, reason)
    shift, _ = evidence.best(np.ones(number))
    error = _error(evidence)
    if not (math.isfinite(shift) and math.isfinite(error)):
        return Offset.unknown(number, "a few cases decide whether there is a border")
    return Offset(-shift, max(error, 1e-3), number, radius=evidence.radius)


def _error(evidence: Evidence) -> float:
    """Return the standard error of the best shift; ``NaN`` if some cases decide that there is one.

    The larger of two: the bootstrap's over cases (it knows how certain each is), and that of the
    median of the cases' own best shifts (it holds where eight sharp borders disagree).
    """
    number = len(evidence)
    draws = rng(0, "bootstrap", number).multinomial(number, np.full(number, 1 / number), DRAWS)
    drawn = np.array([evidence.best(row)[0] for row in draws.astype(np.float64)])
    alone = np.array([evidence.best(row)[0] for row in np.eye(number)])
    alone = alone[np.isfinite(alone)]
    if np.isfinite(drawn).mean() < HIGH or 2 * len(alone) < number:
        return math.nan
    low, high = np.percentile(alone, [25, 75])
    spread = 1.253 / 1.349 * (high - low) / math.sqrt(len(alone))
    few = math.sqrt((number - 1) / max(number - 3, 1))  # as Student's t is wider than a normal
    return few * float(max(np.nanstd(drawn), spread))


def _doubt(evidence: Evidence) -> str:
    """Return why the images of a site do not tell where the border is; empty if they do."""
    curve = evidence.rings.mean(axis=0)
    top = int(np.argmax(curve))
    if curve[top] < WEAKEST:
        return "no border stands out in the images"
    if top in (0, len(curve) - 1):
        return f"no border within {-evidence.shifts[0]} pixels (at {SIDE}) of the contours"
    is_peak = (curve[1:-1] > curve[:-2]) & (curve[1:-1] >= curve[2:])
    peaks: list[int] = (np.flatnonzero(is_peak) + 1).tolist()
    for other in peaks:
        valley = curve[min(top, other) : max(top, other) + 1].min()
        if curve[other] >= SECOND * curve[top] and valley <= VALLEY * curve[other]:
            return f"there is a second border {abs(other - top)} pixels (at {SIDE}) from the first"
    high = np.flatnonzero(curve >= HIGH * curve[top])
    if (width := int(high[-1] - high[0]) + 1) > WIDEST:
        return f"the border is diffuse: {width} pixels (at {SIDE}) are equally good"
    return ""


def contour_offset(
    drawn: ArrayLike, predicted: ArrayLike, spacing: Sequence[float] | None = None
) -> float:
    """Return how far the drawn contour lies outside the predicted one, in pixels.

    It is the mean signed distance from one contour to the other, measured both ways, in pixels of
    the smallest side; negative if the mask was drawn inside the prediction, ``NaN`` if one of the
    two is empty or fills the frame.

    >>> wide, narrow = np.zeros((2, 20, 20))
    >>> wide[4:16, 4:16] = 1
    >>> narrow[6:14, 6:14] = 1
    >>> round(contour_offset(wide, narrow))
    2
    """
    one, two = np.asarray(drawn) != 0, np.asarray(predicted) != 0
    if not one.any() or one.all() or not two.any() or two.all():
        return math.nan
    window = box_around(one | two, margin=1)  # holds the whole of both borders
    one, two, sizes = one[window], two[window], relative_sizes(spacing)
    from_one, from_two = signed_distance(one, sizes), signed_distance(two, sizes)
    if sizes is None:
        outside = from_two[np.abs(from_one) < ON_BORDER].mean(dtype=np.float64)
        inside = from_one[np.abs(from_two) < ON_BORDER].mean(dtype=np.float64)
    else:  # pixels are not as long as they are wide: every face counts by its area
        outside = np.average(from_two, weights=touched_faces(one, sizes))
        inside = np.average(from_one, weights=touched_faces(two, sizes))
    return float((outside - inside) / 2)


def site_offset(offsets: ArrayLike) -> FloatArray:
    """Return a site's offset and its standard error from those of its cases.

    The median, because a model that misses one object is off by many pixels there; its standard
    error is that of a median of normal draws, 1.253 s / sqrt(n). Both are ``NaN`` if fewer than two
    cases, or fewer than half of them, have an offset.

    >>> site_offset([2.0, 3.0, 2.0, 3.0]).round(2).tolist()
    [2.5, 0.36]
    """
    values = np.asarray(offsets, dtype=np.float64)
    known = values[np.isfinite(values)]
    if len(known) < 2 or 2 * len(known) < len(values):
        return np.full(2, np.nan)
    error = 1.253 * known.std(ddof=1) / math.sqrt(len(known))
    return np.array([np.median(known), error])
