"""Bring images and masks to one size: area means for both, then masks are cut at one half.

Proportions change with the size, as in the papers. Where a side has to grow there is no area to
average, and it is interpolated linearly.
"""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Images, Masks

# Half a pixel counts as foreground; the slack keeps rounding from deciding exact ties.
_HALF = 0.5 - 1e-4


def resize_image(image: Images, size: tuple[int, ...]) -> Images:
    """Return an image ``(*space, channel)`` at another size; values that are no bytes as floats."""
    if image.shape[:-1] == size:
        return image
    is_plain = len(size) == 2 and image.dtype == np.uint8
    values = _resample(image if is_plain else image.astype(np.float32), size)
    if image.dtype == np.uint8:  # means of values that are more than bytes are kept exactly
        values = np.rint(values).astype(np.uint8)
    return np.ascontiguousarray(values)


def resize_mask(mask: Masks, size: tuple[int, ...]) -> Masks:
    """Return a mask ``(*space)`` at another size.

    A pixel is foreground if at least half of its area is; with several classes it takes the class
    with the largest share of that area.

    >>> resize_mask(np.array([[1, 0, 0, 0], [1, 0, 0, 1]], np.uint8), (1, 2)).tolist()
    [[1, 0]]
    """
    if mask.shape == size:
        return mask
    classes = np.stack([mask == value for value in range(1, int(mask.max(initial=1)) + 1)])
    stack = np.stack(
        [_resample(one[..., None].astype(np.float32), size)[..., 0] for one in classes]
    )
    inside = stack.sum(axis=0) >= _HALF
    return np.where(inside, stack.argmax(axis=0) + 1, 0).astype(np.uint8)


def restore_map(values: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return a map ``(*space)`` of probabilities at the size its image had."""
    return values if values.shape == shape else _resample(values[..., None], shape)[..., 0]


def resize_spacing(
    spacing: tuple[float, ...], shape: tuple[int, ...], size: tuple[int, ...]
) -> tuple[float, ...]:
    """Return the size of a pixel in millimetres after resizing from ``shape`` to ``size``."""
    return tuple(s * a / b for s, a, b in zip(spacing, shape, size, strict=True))


def _resample(pixels: NDArray[Any], size: tuple[int, ...]) -> NDArray[Any]:
    if len(size) == 2:
        return _resample_plane(pixels, size[0], size[1])
    planes = np.stack([_resample_plane(plane, size[1], size[2]) for plane in pixels])
    depth, height, width, channels = planes.shape
    flat = _resample_plane(planes.reshape(depth, height * width, channels), size[0], height * width)
    return flat.reshape(size[0], height, width, channels)


def _resample_plane(pixels: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Resize ``(height, width, channel)``; each side by area if it shrinks, else linearly."""
    rows, columns = pixels.shape[:2]
    if (rows >= height) != (columns >= width):
        pixels = _cv_resize(pixels.astype(np.float32), rows, width, columns >= width)
    return _cv_resize(pixels, height, width, rows >= height)


def _cv_resize(pixels: NDArray[Any], height: int, width: int, shrink: bool) -> NDArray[Any]:
    kernel = cv2.INTER_AREA if shrink else cv2.INTER_LINEAR
    resized: NDArray[Any] = cv2.resize(pixels, (width, height), interpolation=kernel)
    return resized.reshape(height, width, pixels.shape[2])
