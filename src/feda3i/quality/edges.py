"""By how many pixels a mask was drawn outside (or inside) the border that its image shows.

No model and no training. Around the mask, colours are summed up by their distance to the drawn
contour. For every shift of the contour, these sums tell how well colours inside and outside of the
shifted contour can be told apart; the evidence for a shift is -log(1 - J) with
J = rho (1 - rho) (c_in - c_out)^T Sigma^-1 (c_in - c_out), rho the share of pixels inside, c the
mean colours of the two sides and Sigma the covariance of all pixels (J is the share of the
variance between inside and outside that a linear function of the colours explains).

Narrow rings on both sides of each candidate find the border, however far it is from the contour. A
band that stays fixed around what they found then measures its place: the wide rings average over a
wobbling contour. Cases of a site share one offset, so their evidence is added before the best shift
is looked for. docs/why/offsets.md has figures.

All lengths below are in pixels of an image of 256 pixels a side and scale with the longest side.
"""

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.errors import DataError
from feda3i.geometry import box_around, relative_sizes, signed_distance
from feda3i.quality.numbers import FloatArray

SIDE = 256
SPAN = 40  # farthest shift that is looked for
RING = 20  # width of the ring on either side of a candidate, first step
BAND = 30  # half the width of the band around the border, second step
NEAR = 12  # how far the second step may move away from what the first found
REACH = SPAN + NEAR + BAND  # farthest pixel that any step looks at
PASSES = 2  # of the second step: its band is centred anew once
SMALLEST_SIDE = 0.02  # share of the pixels that must lie on either side of a candidate
RIDGE = 1e-3  # added to the covariance: colours may be constant, or grey stored as RGB
CONTRAST = 64.0  # grey levels that count as one
WEAKEST = 0.02  # evidence below which an image shows no border
SAMPLED = 128  # pixels a side of the grid on which images are sampled, larger and smaller ones

Mask = NDArray[np.bool_]


def colour_profile(
    image: ArrayLike, mask: ArrayLike, spacing: Sequence[float] | None = None
) -> FloatArray | None:
    """Return sums of colours by distance to the drawn contour, ``(2 * REACH, feature)``.

    Row k is of the pixels k - REACH to k + 1 - REACH outside the contour: their number, the sum of
    each channel, the sums of products of channels (upper triangle). Images are ``(*space)`` or
    ``(*space, channel)`` with values of 0..255, masks ``(*space)`` in two or three dimensions.
    ``None`` if the mask is empty or full: there is no contour.
    """
    drawn, colours = np.asarray(mask) != 0, np.asarray(image)
    if colours.ndim == drawn.ndim:
        colours = colours[..., None]
    if colours.shape[:-1] != drawn.shape:
        found = f"found image {colours.shape} and mask {drawn.shape}"
        raise DataError(f"expected image (*space) or (*space, channel) and mask (*space), {found}")
    if not drawn.any() or drawn.all():
        return None
    sizes = relative_sizes(spacing)
    scale = longest_side(drawn.shape, spacing) / SIDE
    window = box_around(drawn, math.ceil(REACH * scale) + 1)
    away, near = signed_distance(drawn[window], sizes), colours[window]
    # Between whole pixels: at 32 a side their distances come in steps of eight rows. Volumes have
    # neighbours in more directions, and would grow by the cube.
    finer = max(1, round(SAMPLED / max(drawn.shape))) if drawn.ndim == 2 else 1
    if finer > 1:
        away, near = _enlarged(away, finer), _enlarged(near, finer)
    thin = (slice(None, None, max(1, max(drawn.shape) // SAMPLED)),) * drawn.ndim
    away = away[thin] / np.float32(scale)
    is_near = np.abs(away) < REACH
    row = (away[is_near] + REACH).astype(np.intp)
    colour = near[thin][is_near].astype(np.float64) / CONTRAST
    first, second = np.triu_indices(colour.shape[1])
    columns = [None, *colour.T, *(colour[:, first] * colour[:, second]).T]
    sums = np.stack([np.bincount(row, one, 2 * REACH) for one in columns], axis=1, dtype=np.float64)
    if (width := round(1 / (scale * finer))) < 2:
        return sums
    # A pixel of a small image counts for as many rows as it is wide.
    edges = ((width - 1) // 2 + 1, width // 2), (0, 0)
    running = np.cumsum(np.pad(sums, edges, mode="edge"), axis=0)
    return np.asarray((running[width:] - running[:-width]) / width)


def _enlarged(values: NDArray[Any], times: int) -> NDArray[Any]:
    """Return values between the pixels of a plane too, by bilinear interpolation."""
    shape = (values.shape[1] * times, values.shape[0] * times)
    enlarged = cv2.resize(values.astype(np.float32), shape, interpolation=cv2.INTER_LINEAR)
    return np.asarray(enlarged).reshape(*shape[::-1], *values.shape[2:])


def longest_side(shape: Sequence[int], spacing: Sequence[float] | None = None) -> float:
    """Return the longest side of an image in pixels of the smallest side."""
    sizes = relative_sizes(spacing)
    return max(shape if sizes is None else [n * a for n, a in zip(shape, sizes, strict=True)])


class Evidence:
    """What the profiles of one site's cases say about each shift of their contours."""

    def __init__(self, profiles: Sequence[FloatArray] | FloatArray) -> None:
        stack = np.asarray(profiles, dtype=np.float64)
        start = np.zeros((len(stack), 1, stack.shape[2]))
        self._sums = np.concatenate([start, stack.cumsum(axis=1)], axis=1)
        self.channels = math.isqrt(8 * stack.shape[2] + 1) // 2 - 1
        self.shifts = np.arange(-SPAN, SPAN + 1)
        self.rings = self.of(self.shifts, self.shifts - RING, self.shifts + RING)
        self._bands: dict[int, FloatArray] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def of(self, shift: ArrayLike, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return ``(case, shift)`` evidence, each shift within its band ``low..high``."""
        at, first, last = np.broadcast_arrays(shift, low, high)
        start = self._sums[:, first + REACH]
        inner, whole = self._sums[:, at + REACH] - start, self._sums[:, last + REACH] - start
        size, number = inner[..., 0], whole[..., 0]
        share = size / np.maximum(number, 1e-9)
        is_two_sided = (share >= SMALLEST_SIDE) & (share <= 1 - SMALLEST_SIDE) & (number >= 1)
        size, number = np.where(is_two_sided, size, 1.0), np.where(is_two_sided, number, 2.0)
        colour = slice(1, 1 + self.channels)
        jump = inner[..., colour] / size[..., None]
        jump = jump - (whole - inner)[..., colour] / (number - size)[..., None]
        jump = np.where(is_two_sided[..., None], jump, 0.0)
        solved = np.linalg.solve(self._covariance(whole, number, is_two_sided), jump[..., None])
        explained = share * (1 - share) * (jump * solved[..., 0]).sum(axis=-1)
        return np.asarray(-np.log1p(-np.clip(explained, 0.0, 0.999)))

    def _covariance(self, whole: FloatArray, number: FloatArray, is_known: Mask) -> FloatArray:
        mean = whole[..., 1 : 1 + self.channels] / number[..., None]
        covariance = np.empty((*mean.shape, self.channels))
        upper, lower = np.triu_indices(self.channels)
        products = whole[..., 1 + self.channels :] / number[..., None]
        covariance[..., upper, lower] = covariance[..., lower, upper] = products
        covariance -= mean[..., :, None] * mean[..., None, :]
        unit = np.eye(self.channels)
        return np.where(is_known[..., None, None], covariance + RIDGE * unit, unit)

    @property
    def radius(self) -> float:
        """Return the median over cases of the deepest pixel's distance to the contour."""
        is_empty = self._sums[:, 1:, 0] == 0
        return float(REACH - np.median(is_empty.argmin(axis=1)))

    def best(self, weights: FloatArray) -> tuple[float, float]:
        """Return the best shift for weighted cases and its evidence; ``NaN`` if none stands out."""
        place, strength = _peak(weights @ self.rings)
        shift = place - SPAN
        for _ in range(PASSES):
            if not math.isfinite(shift):
                break
            centre = round(shift)
            if centre not in self._bands:  # (case, 2 * NEAR + 1), all within one band
                near = centre + np.arange(-NEAR, NEAR + 1)
                self._bands[centre] = self.of(near, centre - BAND, centre + BAND)
            place, strength = _peak(weights @ self._bands[centre])
            shift = centre - NEAR + place
        return shift, strength / max(float(weights.sum()), 1e-9)


def _peak(values: FloatArray) -> tuple[float, float]:
    """Return where a curve is highest, between its points, and how high; ``NaN`` at its ends."""
    top = int(np.argmax(values))
    # An empty stretch between two distances makes a plateau: its middle is meant.
    wide = int(np.argmax(values[top:] < values[top])) or len(values) - top
    if top == 0 or top + wide >= len(values):
        return math.nan, float(values[top])
    if wide > 1:
        return top + (wide - 1) / 2, float(values[top])
    left, here, right = values[top - 1 : top + 2].tolist()
    return top + 0.5 * (left - right) / (left - 2 * here + right), here
