"""Smooth random fields and shapes in a frame of any size: the parts of synthetic cases.

Every draw is independent of the frame's size: the same generator gives the same picture at 64 and
at 256 pixels, with more detail in the latter. Arithmetic is elementwise float64 (no BLAS, no
threads), so that the last bit of a sine on another machine does not survive the rounding to bytes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import RecipeError

Array = NDArray[np.float64]

SMALLEST = 32
# Sum of the squared weights of a cubic B-spline, mean over positions: the variance that it leaves.
_SPLINE_VARIANCE = 151 / 315


def pixel_grid(size: int) -> tuple[Array, Array]:
    """Return rows ``(size, 1)`` and columns ``(1, size)`` of the pixel centres; the frame is 0..1.

    >>> [a.shape for a in pixel_grid(32)]
    [(32, 1), (1, 32)]
    """
    if size < SMALLEST:
        raise RecipeError(
            f"expected size >= {SMALLEST} pixels for synthetic cases, found {size}; smaller frames "
            "cannot hold a lesion with a border"
        )
    centre = (np.arange(size) + 0.5) / size
    return centre[:, None], centre[None, :]


@lru_cache(maxsize=256)
def _taps(cells: int, size: int) -> tuple[NDArray[np.intp], Array]:
    """Return which of ``cells + 3`` knots each pixel reads and with what weight, ``(tap, size)``.

    A cubic B-spline, widened when there are more cells than pixels: detail too fine for the frame
    is averaged as a camera would, instead of turning into other detail.
    """
    stretch = max(1.0, cells / size)
    place = (np.arange(size) + 0.5) / size * cells + 1.0
    taps = int(np.ceil(4 * stretch)) + 1
    first = np.floor(place - 2 * stretch).astype(np.intp) + 1
    index = first + np.arange(taps)[:, None]
    d = np.abs(place - index) / stretch
    weight = np.where(d < 1, 2 / 3 - d * d * (1 - d / 2), np.maximum(2 - d, 0) ** 3 / 6)
    return np.clip(index, 0, cells + 2), weight / weight.sum(axis=0)


def smooth_fields(
    rng: np.random.Generator, count: int, cells: int | tuple[int, int], size: int
) -> Array:
    """Return random fields with a standard deviation of about one.

    Parameters
    ----------
    rng
        Source of the draws: ``count * (rows + 3) * (columns + 3)`` normals, whatever the size.
    count
        Number of fields.
    cells
        How many bumps fit in the frame, one number or (down, across).
    size
        Pixels of the square frame.

    Returns
    -------
    Fields ``(count, size, size)``.
    """
    down, across = (cells, cells) if isinstance(cells, int) else cells
    knots = rng.standard_normal((count, down + 3, across + 3)) / _SPLINE_VARIANCE
    return _stretch(_stretch(knots, down, size).swapaxes(1, 2), across, size).swapaxes(1, 2)


def _stretch(knots: Array, cells: int, size: int) -> Array:
    index, weight = _taps(cells, size)
    total = np.zeros((len(knots), size, knots.shape[2]))
    for i, w in zip(index, weight, strict=True):
        total += knots[:, i, :] * w[:, None]
    return total


def blob(
    rng: np.random.Generator,
    size: int,
    *,
    centre: tuple[float, float],
    radius: float,
    aspect: float,
    tilt: float,
    rough: float,
    lobes: int,
) -> tuple[Array, NDArray[np.complex128]]:
    """Draw an irregular closed shape.

    Parameters
    ----------
    rng
        Source of the draws.
    size
        Pixels of the square frame.
    centre, radius
        Row and column, and the radius of a disc of about the same area, in shares of the frame.
    aspect, tilt
        Length over width, and the angle of the long axis in radians.
    rough
        0 is an ellipse, 1 is strongly irregular.
    lobes
        How many bulges are joined to the main body.

    Returns
    -------
    Signed distance to the contour, positive inside, in shares of the frame (exact only near it),
    and the direction from the centre as a complex number of length one; both ``(size, size)``.
    """
    y, x = pixel_grid(size)
    turned = ((x - centre[1]) + 1j * (y - centre[0])) * np.exp(-1j * tilt)
    flat = turned.real / np.sqrt(aspect) + 1j * (turned.imag * np.sqrt(aspect))
    distance = np.abs(flat) + 1e-12
    direction = flat / distance
    edge = np.ones_like(distance)
    turn = direction.copy()
    for k in range(2, 9):
        turn *= direction
        wave = rng.normal(0, 0.16 * rough / k, 2)
        edge += wave[0] * turn.real - wave[1] * turn.imag
    inside = radius * edge - distance
    for angle in rng.uniform(0, 2 * np.pi, lobes):
        share, reach = rng.uniform(0.35, 0.65), rng.uniform(0.7, 1.0)
        bulge = share * radius - np.abs(flat - reach * radius * np.exp(1j * angle))
        inside = _join(inside, bulge, 0.3 * radius)
    return inside, direction


def _join(a: Array, b: Array, blend: float) -> Array:
    """Return the union of two signed distances, its corners rounded over ``blend``."""
    near = np.maximum(blend - np.abs(a - b), 0) / blend
    return np.asarray(np.maximum(a, b) + near * near * blend / 4)


def rise(distance: Array, width: Array | float) -> Array:
    """Return a smooth step from 0 to 1, one half at distance 0 and over about ``2 * width``."""
    return np.asarray(0.5 + 0.5 * np.tanh(distance / width))


def to_bytes(values: Array) -> NDArray[np.uint8]:
    """Round values of 0..1 to bytes."""
    return np.rint(np.clip(values, 0.0, 1.0) * 255).astype(np.uint8)
