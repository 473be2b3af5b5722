"""Masks with their contours moved: what an annotator with a known offset meant to draw.

The given masks are never changed: every function returns new ones.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.geometry import label_components, relative_sizes, signed_distance

DEEPEST = 0.6  # of an object's inner radius: no object is shrunk further


def shift_mask(
    mask: ArrayLike, by: float, spacing: Sequence[float] | None = None
) -> NDArray[np.bool_]:
    """Return a mask whose contour lies ``by`` pixels farther out; inwards if negative.

    Every object keeps what is deeper than 0.6 of its inner radius, so none is lost, however small;
    objects that grow may join. The frame is not a contour; an empty or a full mask stays as it is.
    ``mask`` has any number of dimensions; pixels are those of the smallest side where ``spacing``,
    the size of a pixel along each axis, says that sides differ.

    >>> shift_mask(np.array([[0, 0, 1, 1, 1, 0, 0]]), 1).astype(int).tolist()
    [[0, 1, 1, 1, 1, 1, 0]]
    """
    drawn = np.asarray(mask) != 0
    if by == 0 or not drawn.any() or drawn.all():
        return np.array(drawn, dtype=np.bool_)
    away = signed_distance(drawn, relative_sizes(spacing))
    if by > 0:
        return np.asarray(away <= by)
    labels, count = label_components(np.ascontiguousarray(drawn).view(np.uint8))
    depth = np.zeros(count + 1)
    np.maximum.at(depth, labels[drawn], -away[drawn])
    limit = np.maximum(by, -DEEPEST * depth)
    return np.asarray(drawn & (away <= limit[labels]))


def redraw(
    mask: NDArray[np.uint8], by: Sequence[float], spacing: Sequence[float] | None = None
) -> NDArray[np.uint8]:
    """Return a label map in which the contour of each class 1..C moves ``by`` pixels outwards.

    Classes move one by one, each from its given region, and are painted in ascending order; what no
    class claims becomes background. A map in which a class would lose all of its pixels under
    another one is left as it is.

    >>> redraw(np.array([[0, 0, 1, 1, 2, 2, 0]], np.uint8), [1.0, 0.0]).tolist()
    [[0, 1, 1, 1, 2, 2, 0]]
    """
    if not any(by):
        return mask.copy()
    drawn = np.zeros_like(mask)
    for value, pixels in enumerate(by, start=1):
        drawn[shift_mask(mask == value, pixels, spacing)] = value
    lost = [v for v in range(1, len(by) + 1) if (mask == v).any() and not (drawn == v).any()]
    return mask.copy() if lost else drawn
