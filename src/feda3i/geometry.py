"""Masks as shapes: signed distance, contours, normals, polygons, components.

Places are (row, column) and in pixels everywhere. The half-pixel convention: the border of an
object runs midway between the centres of a foreground pixel and its background neighbour.
"""

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError

Binary = NDArray[np.uint8]
Points = NDArray[np.int32]
Floats = NDArray[np.float64]
Box = tuple[slice, ...]

FARTHEST = 1000.0
"""Pixels: from here on single precision no longer tells which whole number a square is."""


def signed_distance(
    mask: NDArray[Any], spacing: Sequence[float] | None = None
) -> NDArray[np.float32]:
    """Return the exact Euclidean distance of every pixel to the border, negative inside.

    The distance to the nearest pixel of the other side, less half a pixel in that direction. The
    frame is not a border: all is +inf if the mask is empty, -inf if it is full. Distances are in
    the unit of ``spacing``, the size of a pixel along each axis.

    >>> signed_distance(np.array([[0, 0, 1, 1, 1]])).tolist()
    [[1.5, 0.5, -0.5, -1.5, -2.5]]
    """
    inside = np.ascontiguousarray(mask != 0)
    if spacing is not None and (len(spacing) != inside.ndim or not min(spacing) > 0):
        raise DataError(f"expected {inside.ndim} pixel sizes above 0, found {tuple(spacing)}")
    if not inside.any() or inside.all():
        return np.full(inside.shape, -np.inf if inside.any() else np.inf, np.float32)
    if spacing is None:
        signed = np.where(inside, 0.5 - depth(inside), depth(~inside) - 0.5)
    else:
        sizes = np.asarray(spacing, dtype=np.float64)
        signed = np.where(inside, -_to_border(inside, sizes), _to_border(~inside, sizes))
    return signed.astype(np.float32)


def depth(inside: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Return the exact Euclidean distance of every pixel to the nearest ``False``, in pixels.

    The last bits of what OpenCV returns depend on where its arrays lie in memory; squares of
    distances are whole numbers, which tell them exactly.
    """
    if inside.ndim == 2:
        image = np.ascontiguousarray(inside).view(np.uint8)
        distance = cv2.distanceTransform(image, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        if float(distance.max()) < FARTHEST:
            squares = np.rint(np.square(distance, dtype=np.float64))
            return np.sqrt(squares).astype(np.float32)
    from scipy import ndimage

    return np.asarray(ndimage.distance_transform_edt(inside))


def _to_border(inside: NDArray[np.bool_], sizes: Floats) -> Floats:
    """Return the distance of inner pixels to the nearest outer one, less half a pixel on the way.

    A pixel's extent along a direction u is |u * size|.
    """
    from scipy import ndimage

    places = ndimage.distance_transform_edt(
        inside, sampling=sizes, return_distances=False, return_indices=True
    )
    here = np.ogrid[tuple(map(slice, inside.shape))]
    square, half = np.zeros((2, *inside.shape))
    for axis, size in enumerate(sizes):
        step = ((places[axis] - here[axis]) * size) ** 2
        square += step
        half += step * size**2
    length = np.sqrt(square)
    return np.asarray(length - 0.5 * np.sqrt(half) / np.maximum(length, 1e-12))


def relative_sizes(spacing: Sequence[float] | None) -> list[float] | None:
    """Return the sides of a pixel in units of the smallest; ``None`` if all are equal."""
    if spacing is None or max(spacing) <= min(spacing):
        return None
    return [float(size / min(spacing)) for size in spacing]


def box_around(mask: NDArray[np.bool_], margin: int | Sequence[int] = 0) -> Box:
    """Return the smallest box that holds a mask and a margin (or one per axis), within the frame.

    >>> box_around(np.array([[False, False, True]]), margin=1)
    (slice(0, 1, None), slice(1, 3, None))
    """
    box = []
    margins = np.broadcast_to(margin, mask.ndim).tolist()
    for axis, (side, more) in enumerate(zip(mask.shape, margins, strict=True)):
        line = np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)))
        low, high = (int(line[0]), int(line[-1]) + 1) if len(line) else (0, 0)
        box.append(slice(max(low - more, 0), min(high + more, side)))
    return tuple(box)


def touched_faces(mask: NDArray[Any], spacing: Sequence[float]) -> Floats:
    """Return how much of the border each pixel on either side of it holds, in pixels of contour.

    A pixel that shares a face with the other side counts 1 / size of the pixel across that face,
    its part of the border's area.
    """
    inside = np.asarray(mask) != 0
    held = np.zeros(inside.shape)
    for axis, size in enumerate(spacing):
        sides = np.swapaxes(inside, 0, axis)
        crosses = np.where(sides[:-1] != sides[1:], 1.0 / size, 0.0)
        for part in (slice(None, -1), slice(1, None)):
            both = np.swapaxes(held, 0, axis)[part]
            np.maximum(both, crosses, out=both)
    return held


def outer_contours(mask: Binary) -> tuple[list[Points], bool]:
    """Return the outer contour of every 8-connected component, and whether any has a hole.

    Each contour ``(l, 2)`` lists every border pixel once per visit, the object on the same hand.
    """
    found, tree = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    if not found:
        return [], False
    is_outer = tree[0, :, 3] < 0
    outer: list[Any] = [c[:, 0, ::-1] for c, keep in zip(found, is_outer, strict=True) if keep]
    return outer, len(outer) < len(found)


def contour_normals(contour: Points, reach: int) -> Floats:
    """Return the unit vectors ``(l, 2)`` that point out of the object along its contour.

    The tangent is that of a straight line fitted over ``reach`` pixels on either side. At the tip
    of a one-pixel line, which has none, the normal points away from the middle of the window.

    >>> square = np.pad(np.ones((9, 9), np.uint8), 3)
    >>> contour = outer_contours(square)[0][0]
    >>> up = contour_normals(contour, 2)[contour.tolist().index([3, 7])]
    >>> bool(np.allclose(up, [-1, 0]))
    True
    """
    length, width = len(contour), 2 * reach + 1
    around = np.take(contour, np.arange(-reach - 1, length + reach), axis=0, mode="wrap")
    # Running sums of whole numbers, exact in float64: the result does not depend on the start.
    line = np.empty((4, len(around)))
    line[:2] = around.T
    place = np.arange(len(around), dtype=np.float64)
    np.multiply(line[:2], place, out=line[2:])
    running = line.cumsum(axis=1)
    window = running[:, width:] - running[:, :-width]
    along = window[2:] - window[:2] * place[reach + 1 : -reach]
    # The walk has the object on its left (rows grow downwards), so outwards is to the right.
    out = along[::-1] * np.array([[1.0], [-1.0]])
    size = np.hypot(out[0], out[1])
    if not size.all():
        tip = size == 0
        out[:, tip] = (width * contour.T - window[:2])[:, tip]
        size = np.maximum(np.hypot(out[0], out[1]), 1e-9)
    return np.asarray((out / size).T)


def fill_polygon(points: Points, shape: tuple[int, ...]) -> Binary:
    """Return the mask of a polygon given by (row, column), outline included, even-odd rule."""
    canvas = np.zeros(shape, np.uint8)
    if len(points):
        cv2.fillPoly(canvas, [np.ascontiguousarray(points[:, ::-1], np.int32)], 1)
    return canvas


def label_components(mask: Binary, is_diagonal: bool = True) -> tuple[NDArray[np.int32], int]:
    """Return the parts numbered 1..n in scan order, and n; corners connect if ``is_diagonal``."""
    if mask.ndim == 2:
        count, labels = cv2.connectedComponents(mask, connectivity=8 if is_diagonal else 4)
        return np.asarray(labels, np.int32), count - 1
    from scipy import ndimage

    structure = ndimage.generate_binary_structure(mask.ndim, mask.ndim if is_diagonal else 1)
    labels, count = ndimage.label(mask, structure)
    return labels.astype(np.int32), int(count)
