"""A site's offset with its standard error, or the reason why it cannot be told.

Two estimators that share no evidence: ``measure_edges`` looks at the images, ``measure_model`` at
the contours that a trained model predicts. Both carry a constant that has nothing to do with one
site: annotators who draw well do not draw on the border of best contrast exactly, and a model
draws as its sites do on average. ``calibrate_offset`` takes it out by trusted masks; without these
an offset tells how sites differ from each other, and little about all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.quality.edges import SIDE, WEAKEST, Evidence, colour_profile, edge_offset, longest_side
from feda3i.quality.numbers import FloatArray
from feda3i.quality.offset import contour_offset, site_offset
from feda3i.seeding import rng

FEWEST = 8  # cases: with four, one odd image decides
SECOND = 0.5  # a second border with this share of the first one's evidence may be the meant one
VALLEY = 0.9  # between two borders the evidence falls below this share of the lower one's
HIGH, WIDEST = 0.95, 15  # a peak this wide (pixels at 256) at this height has no clear place
FARTHEST = 8.0  # pixels at 256: trusted masks farther from the edge follow another border
LEAST_AGREEMENT = 0.8  # Spearman's rho of the two estimators over sites
DRAWS = 64  # of the bootstrap; the jackknife erred by a factor of two either way
SMALLEST_ERROR = 0.1  # pixels of the image: distances between pixels come in steps


@dataclass(frozen=True)
class Offset:
    """How far one site draws outside a border, on average over its cases."""

    offset: float
    """In pixels of the images; negative if it draws inside, ``NaN`` if it cannot be told."""
    error: float  # standard error of the offset in pixels; ``NaN`` if it cannot be told
    cases: int  # cases that contributed
    reason: str = ""  # why it cannot be told; empty if it can
    radius: float = math.nan  # inner radius of the drawn objects, median over cases, in pixels

    @property
    def is_known(self) -> bool:
        """Return whether there is an answer at all."""
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


def edge_offsets(images: ArrayLike, masks: ArrayLike) -> FloatArray:
    """Return the offset of each case from the border in its image, ``(case,)``, in pixels.

    Parameters
    ----------
    images
        ``(case, *space)`` or ``(case, *space, channel)``, values of 0..255.
    masks
        ``(case, *space)``, not zero inside.

    Returns
    -------
    offsets
        Positive if drawn outside, ``NaN`` where it cannot be told (``edge_offset``).
    """
    pairs = zip(np.asarray(images), np.asarray(masks), strict=True)
    return np.array([edge_offset(image, mask) for image, mask in pairs], dtype=np.float64)


def measure_edges(
    images: ArrayLike,
    masks: ArrayLike,
    fewest: int = FEWEST,
    spacing: ArrayLike | None = None,
) -> Offset:
    """Return how far a site's masks were drawn outside the borders that its images show.

    The evidence of all cases is added before the best shift is looked for; it cannot be told with
    fewer than ``fewest`` cases with a contour, if no border stands out, if another one stands out
    half as much, or if the border is too diffuse to have a place.

    Parameters
    ----------
    images, masks
        As in ``edge_offsets``; of one size or, as lists, of several, which share their offset
        relative to the longest side of each. It is then in pixels of the median longest side.
    spacing
        ``(case, dimension)`` size of a pixel along each axis; ``None`` if all are equal. The offset
        is in pixels of the smallest side.

    >>> yy, xx = np.mgrid[:64, :64] - 32
    >>> away = np.stack([np.hypot(yy, xx + k) for k in range(8)])
    >>> round(measure_edges(200 - 100 * (away < 14), away < 16).offset)
    2
    """
    drawn = [np.asarray(mask) for mask in _each(masks)]
    sizes = [None] * len(drawn) if spacing is None else np.asarray(spacing, float).tolist()
    cases = zip(_each(images), drawn, sizes, strict=True)
    found = [colour_profile(*case) for case in cases]
    sides = [longest_side(mask.shape, one) for mask, one in zip(drawn, sizes, strict=True)]
    measured = measure_profiles([one for one in found if one is not None], fewest)
    own = rescaled(measured, float(np.median(sides)) / SIDE if sides else 1.0)
    return replace(own, error=max(own.error, SMALLEST_ERROR)) if own.is_known else own


def measure_profiles(profiles: Sequence[FloatArray], fewest: int = FEWEST) -> Offset:
    """Return the offset that a site's colour profiles tell, in pixels at 256."""
    number = len(profiles)
    if number < max(fewest, 2):
        return Offset.unknown(number, f"{number} cases with a contour, {max(fewest, 2)} are needed")
    evidence = Evidence(profiles)
    reason = _doubt(evidence)
    if reason:
        return Offset.unknown(number, reason)
    shift, _ = evidence.best(np.ones(number))
    error = _error(evidence)
    if not (math.isfinite(shift) and math.isfinite(error)):
        return Offset.unknown(number, "a few cases decide whether there is a border")
    return Offset(-shift, max(error, 1e-3), number, radius=evidence.radius)


def _each(stack: ArrayLike) -> Iterable[Any]:
    """Return the cases of an array, or of anything that holds arrays of several shapes."""
    return stack if isinstance(stack, list) else np.asarray(stack)


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


def measure_model(
    drawn: ArrayLike, predicted: ArrayLike, fewest: int = FEWEST
) -> tuple[Offset, FloatArray]:
    """Return how far a site draws outside a model's contours, and the same of each case.

    Parameters
    ----------
    drawn, predicted
        ``(case, *space)``, not zero inside.

    Returns
    -------
    offset
        The median over cases (``site_offset``).
    offsets
        ``(case,)``; ``NaN`` where one of the two has no contour.
    """
    pairs = zip(np.asarray(drawn), np.asarray(predicted), strict=True)
    offsets = np.array([contour_offset(one, two) for one, two in pairs], dtype=np.float64)
    number = int(np.isfinite(offsets).sum())
    offset, error = site_offset(offsets, fewest).tolist()
    if not math.isfinite(offset):
        few = f"{number} of {len(offsets)} cases with two contours, {fewest} and half are needed"
        return Offset.unknown(number, few), offsets
    return Offset(offset, error, number), offsets


def calibrate_offset(measured: Offset, trusted: Offset, side: int) -> Offset:
    """Return an offset from the border that trusted masks follow.

    Parameters
    ----------
    measured
        Of a site, by either estimator.
    trusted
        The same of masks that are known to be right (b0): some 32 of the same kind of image.
    side
        Longest side of the images in pixels.

    >>> found = calibrate_offset(Offset(5.0, 0.3, 16), Offset(2.0, 0.4, 32), side=256)
    >>> found.offset, found.error
    (3.0, 0.5)
    """
    if not measured.is_known:
        return measured
    if not trusted.is_known:
        return Offset.unknown(measured.cases, f"trusted masks: {trusted.reason}")
    limit = FARTHEST * side / SIDE
    if abs(trusted.offset) > limit:
        return Offset.unknown(
            measured.cases,
            f"trusted masks lie {trusted.offset:+.1f} pixels from the border that the images show, "
            f"at most {limit:.1f} is plausible: it is not the one that is drawn here",
        )
    error = math.hypot(measured.error, trusted.error)
    return replace(measured, offset=measured.offset - trusted.offset, error=error)


def agreement(first: Sequence[Offset], second: Sequence[Offset]) -> float:
    """Return Spearman's correlation of two estimators over the sites that both can tell.

    It needs no truth: two estimators that share no evidence agree only about what is there.
    ``NaN`` with fewer than four such sites, or if all are alike. Below ``LEAST_AGREEMENT`` the
    offsets should be reported and not acted on.
    """
    both = [(a.offset, b.offset) for a, b in zip(first, second, strict=True)]
    pairs: NDArray[np.float64] = np.array(both, dtype=np.float64).reshape(-1, 2)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    if len(pairs) < 4 or (np.ptp(pairs, axis=0) == 0).any():
        return math.nan
    from scipy import stats

    return float(stats.spearmanr(pairs[:, 0], pairs[:, 1]).statistic)
