"""The two bands along a mask's contour in which a model's loss tells how the mask was drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.geometry import box_around, depth, relative_sizes

Mask = NDArray[np.bool_]


def boundary_regions(mask: ArrayLike, spacing: Sequence[float] | None = None) -> tuple[Mask, Mask]:
    """Return the inner and the outer band of a mask, boolean arrays of its shape.

    With d the exact Euclidean distance to the nearest pixel of the other kind and d* the smaller of
    its two maxima (inside and outside), a band holds the pixels of its side with d <= d*. Usually
    the inner band is the whole object and the outer one a ring of the same width. Distances are in
    pixels, in any number of dimensions, or in the unit of ``spacing``, the size of a pixel along
    each axis. An empty or full mask has no contour: both bands are empty.

    >>> inner, outer = boundary_regions([[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
    >>> outer.astype(int).tolist()
    [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]]
    """
    drawn = np.asarray(mask) != 0
    inner, outer = np.zeros_like(drawn), np.zeros_like(drawn)
    if not drawn.any() or drawn.all():
        return inner, outer
    sizes = relative_sizes(spacing)
    # One pixel around the object holds the nearest background pixel of each of its pixels.
    near = box_around(drawn, margin=1)
    inside = _depth(drawn[near], sizes)
    reach = float(inside.max())
    window = box_around(drawn, [math.ceil(reach / size) for size in sizes or [1.0] * drawn.ndim])
    outside = _depth(~drawn[window], sizes)
    if outside.shape == drawn.shape:  # otherwise some pixel beyond the window is farther than reach
        reach = min(reach, float(outside.max()))
    # Between squares of distances, which are whole numbers: single-precision roots are not exact.
    limit = math.sqrt(round(reach**2) + 0.5) if sizes is None else reach * (1 + 1e-9)
    inner[near] = drawn[near] & (inside <= limit)
    outer[window] = ~drawn[window] & (outside <= limit)
    return inner, outer


def _depth(inside: Mask, sizes: Sequence[float] | None) -> NDArray[np.floating]:
    if sizes is None:
        return depth(inside)
    from scipy import ndimage

    return np.asarray(ndimage.distance_transform_edt(inside, sampling=sizes))
