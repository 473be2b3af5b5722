"""Smooth random fields and shapes in a frame of any size: the parts of synthetic cases.

Every draw is independent of the frame's size: the same generator gives the same picture at 64 and
at 256 pixels, with more detail in the latter. Arithmetic is float64 in a fixed order (no BLAS, no
threads), so that the last bit of a sine on another machine does not survive the rounding to bytes.
"""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]
Directions = NDArray[np.complex128]

SMALLEST = 32
# Sum of the squared weights of a cubic B-spline, mean over positions: the variance that it leaves.
_SPLINE_VARIANCE = 151 / 315


def pixel_grid(size: int) -> tuple[Array, Array]:
    """Return rows ``(size, 1)`` and columns ``(1, size)`` of the pixels; the frame is 0..1."""
    centre = (np.arange(size) + 0.5) / size
    return centre[:, None], centre[None, :]


@lru_cache(maxsize=256)
def _spline(cells: int, size: int) -> csr_array:
    """Return the weights ``(size, cells + 3)`` with which pixels read the knots of a field.

    A cubic B-spline, widened when there are more cells than pixels: detail too fine for the frame
    is averaged as a camera would, instead of turning into other detail.
    """
    stretch = max(1.0, cells / size)
    place = (np.arange(size)[:, None] + 0.5) / size * cells + 1.0
    d = np.abs(place - np.arange(cells + 3)) / stretch
    weight = np.where(d < 1, 2 / 3 - d * d * (1 - d / 2), np.maximum(2 - d, 0) ** 3 / 6)
    return csr_array(weight / weight.sum(axis=1, keepdims=True))


def smooth_fields(
    rng: np.random.Generator, count: int, cells: int | tuple[int, int], size: int
) -> Array:
    """Return random fields ``(count, size, size)`` with a standard deviation of about one.

    ``cells`` says how many bumps fit in the frame, one number or (down, across); a field takes
    ``(down + 3) * (across + 3)`` normals, whatever the size.
    """
    down, across = (cells, cells) if isinstance(cells, int) else cells
    knots = rng.standard_normal((across + 3, count * (down + 3))) / _SPLINE_VARIANCE
    wide = (_spline(across, size) @ knots).reshape(size, count, down + 3)
    tall = _spline(down, size) @ wide.transpose(2, 1, 0).reshape(down + 3, count * size)
    return np.asarray(tall).reshape(size, count, size).transpose(1, 0, 2)


def blob(
    rng: np.random.Generator,
    size: int,
    centre: tuple[float, float],
    radius: float,
    aspect: float,
    tilt: float,
    rough: float,
    lobes: int,
) -> tuple[Array, Directions]:
    """Draw an irregular closed shape.

    Returned are the signed distance to the contour, positive inside, in shares of the frame (exact
    only near it), and the direction from the centre as a complex number of length one.
    ``radius`` is that of a disc of about the same area; centre and radius are in shares of the
    frame. ``aspect`` is length over width, ``tilt`` the angle of the long axis in radians.
    ``rough`` goes from 0, an ellipse, to 1, strongly irregular; ``lobes`` bulges are joined on.
    """
    y, x = (axis - c for axis, c in zip(pixel_grid(size), centre, strict=True))
    stretch = np.sqrt(aspect)
    u = (x * np.cos(tilt) + y * np.sin(tilt)) / stretch
    v = (y * np.cos(tilt) - x * np.sin(tilt)) * stretch
    distance = np.sqrt(u * u + v * v) + 1e-12
    direction = (u + 1j * v) / distance
    order = np.arange(8, 1, -1)
    even, odd = rng.normal(0, 0.16 * rough / order, (2, len(order)))
    edge = np.zeros_like(direction)
    for wave in (*(even + 1j * odd), 0.0):  # Horner's rule: the sum of wave * direction ** order
        edge *= direction
        edge += wave
    inside = radius * (1 + (edge * direction).real) - distance
    for angle in rng.uniform(0, 2 * np.pi, lobes):
        share, reach = rng.uniform(0.35, 0.65), rng.uniform(0.7, 1.0)
        a, b = u - reach * radius * np.cos(angle), v - reach * radius * np.sin(angle)
        bulge = share * radius - np.sqrt(a * a + b * b)
        blend = 0.3 * radius  # over which the corner between the two is rounded
        near = np.maximum(blend - np.abs(inside - bulge), 0) / blend
        inside = np.maximum(inside, bulge) + near * near * blend / 4
    return inside, direction


def rise(distance: Array, width: Array | float) -> Array:
    """Return a smooth step from 0 to 1, one half at distance 0 and over about ``2 * width``."""
    step = np.asarray(distance / width)
    np.tanh(step, out=step)
    step *= 0.5
    step += 0.5
    return step


def turned(direction: Directions, times: int) -> Directions:
    """Return ``direction ** times`` by repeated squaring; NumPy's complex power is 20 x slower.

    >>> turned(np.array([1j]), 3)
    array([-0.-1.j])
    """
    if times == 1:
        return direction
    half = turned(direction, times // 2)
    return np.asarray(half * half * direction if times % 2 else half * half)


def canvas(size: int) -> tuple[NDArray[np.uint8], int]:
    """Return an empty drawing of 256 pixels or more, a multiple of the frame, and its side."""
    side = size * -(-256 // size)
    return np.zeros((side, side), np.uint8), side


def reduced(drawing: NDArray[np.uint8], size: int) -> Array:
    """Return a drawing at the frame's size, 0..1: lines thinner than a pixel become faint."""
    small = cv2.resize(drawing, (size, size), interpolation=cv2.INTER_AREA)
    return np.asarray(small / 255.0)


def to_bytes(values: Array) -> NDArray[np.uint8]:
    """Round values of 0..1 to bytes."""
    levels = np.clip(values, 0.0, 1.0)
    levels *= 255
    return np.rint(levels, out=levels).astype(np.uint8)
