"""The two bands along a mask's contour in which a model's loss tells how the mask was drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.geometry import Box, box_around, depth, relative_sizes

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Regions:
    """Inner and outer band of one mask in a small form: two bits per pixel of a window."""

    shape: tuple[int, ...]  # size of the mask in space
    window: Box  # the part of the frame that holds both bands
    bits: NDArray[np.uint8]  # inner band, then outer band, each a padded bit plane of the window

    def unpack(self) -> tuple[Mask, Mask]:
        """Return inner and outer band within the window, each flat."""
        size = math.prod(part.stop - part.start for part in self.window)
        planes = np.unpackbits(self.bits, axis=1, count=size).view(np.bool_)
        return planes[0], planes[1]


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
    regions = find_regions(drawn, spacing)
    if regions is not None:
        flat = regions.unpack()
        inner[regions.window] = flat[0].reshape(inner[regions.window].shape)
        outer[regions.window] = flat[1].reshape(outer[regions.window].shape)
    return inner, outer


def find_regions(mask: Mask, spacing: Sequence[float] | None = None) -> Regions | None:
    """Return the bands of a boolean mask, or ``None`` if it is empty or full.

    Only the object's surroundings are transformed. One pixel around its bounding box holds the
    nearest background pixel of every mask pixel; the largest inner distance around it holds every
    pixel that can be in the outer band.
    """
    if not mask.any() or mask.all():
        return None
    near, sizes = box_around(mask, margin=1), relative_sizes(spacing)
    if sizes is not None:
        return _uneven_regions(mask, near, sizes)
    inside = depth(mask[near])
    # Squared distances are whole numbers: comparing those is exact, single-precision roots are not.
    reach = round(float(inside.max()) ** 2)
    window = box_around(mask, math.ceil(math.sqrt(reach)))
    drawn = mask[window]
    outside = depth(~drawn)
    if drawn.shape == mask.shape:  # otherwise some pixel beyond the window is farther than reach
        reach = min(reach, round(float(outside.max()) ** 2))
    limit = math.sqrt(reach + 0.5)
    return Regions(mask.shape, window, _bits(mask, near, window, inside, outside, limit))


def _uneven_regions(mask: Mask, near: Box, sizes: Sequence[float]) -> Regions:
    """Return the bands where a pixel is not as long as it is wide: volumes of thick slices."""
    from scipy import ndimage

    inside = ndimage.distance_transform_edt(mask[near], sampling=sizes)
    reach = float(inside.max())
    window = box_around(mask, [math.ceil(reach / size) for size in sizes])
    drawn = mask[window]
    outside = ndimage.distance_transform_edt(~drawn, sampling=sizes)
    if drawn.shape == mask.shape:
        reach = min(reach, float(outside.max()))
    bits = _bits(mask, near, window, inside, outside, reach * (1 + 1e-9))
    return Regions(mask.shape, window, bits)


def _bits(
    mask: Mask,
    near: Box,
    window: Box,
    inside: NDArray[np.floating],
    outside: NDArray[np.floating],
    limit: float,
) -> NDArray[np.uint8]:
    """Pack both bands: what is no farther from the contour than the limit, on either side."""
    planes = np.zeros((2, *mask[window].shape), dtype=np.bool_)
    planes[0][_relative(near, window)] = (inside <= limit) & mask[near]
    np.less_equal(outside, limit, out=planes[1])
    planes[1] &= ~mask[window]
    return np.packbits(planes.reshape(2, -1), axis=1)


def _relative(near: Box, window: Box) -> Box:
    """Return the place of ``near`` inside ``window``."""
    pairs = zip(near, window, strict=True)
    return tuple(slice(a.start - b.start, a.stop - b.start) for a, b in pairs)
