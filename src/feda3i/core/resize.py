"""Bring images and masks to one size: area means for both, then masks are cut at one half.

``aspect`` says what happens to pictures that are not square: ``"squeeze"`` (the default, as the
papers do) changes the proportions, ``"crop"`` takes the central square, ``"pad"`` adds black
borders. Where a side has to grow there is no area to average, and it is interpolated linearly.
"""

from __future__ import annotations

from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Images, Masks

Aspect = Literal["squeeze", "crop", "pad"]
ASPECTS: tuple[Aspect, ...] = ("squeeze", "crop", "pad")
# Half a pixel counts as foreground; the slack keeps rounding from deciding exact ties.
_HALF = 0.5 - 1e-4


def resize_image(image: Images, size: tuple[int, ...], aspect: Aspect = "squeeze") -> Images:
    """Return an image ``(*space, channel)`` at another size, two or three dimensions in space.

    Bytes stay bytes; other values become ``float32`` where they are averaged.
    """
    shaped = _shape(image, size, aspect)
    if shaped.shape[:-1] == size:
        return shaped
    is_plain = len(size) == 2 and shaped.dtype == np.uint8
    values = _resample(shaped if is_plain else shaped.astype(np.float32), size)
    if shaped.dtype == np.uint8:  # means of values that are more than bytes are kept exactly
        values = np.rint(values).astype(np.uint8)
    return np.ascontiguousarray(values)


def resize_mask(mask: Masks, size: tuple[int, ...], aspect: Aspect = "squeeze") -> Masks:
    """Return a mask ``(*space)`` at another size.

    A pixel is foreground if at least half of its area is; with several classes it takes the class
    with the largest share of that area.

    >>> resize_mask(np.array([[1, 0, 0, 0], [1, 0, 0, 1]], np.uint8), (1, 2)).tolist()
    [[1, 0]]
    """
    shaped = _shape(mask[..., None], size, aspect)[..., 0]
    if shaped.shape == size:
        return shaped
    classes = range(1, int(shaped.max(initial=0)) + 1)
    if not classes:
        return np.zeros(size, np.uint8)
    shares = [
        _resample((shaped == value)[..., None].astype(np.float32), size)[..., 0]
        for value in classes
    ]
    stack = np.stack(shares)
    inside = stack.sum(axis=0) >= _HALF
    return np.where(inside, stack.argmax(axis=0) + 1, 0).astype(np.uint8)


def restore_map(
    values: NDArray[np.float32], shape: tuple[int, ...], aspect: Aspect = "squeeze"
) -> NDArray[np.float32]:
    """Return a map ``(*space)`` of probabilities at the size its image had: undo ``resize_image``.

    What a crop left out is zero.

    >>> restore_map(np.ones((2, 2), np.float32), (2, 4), "crop").tolist()
    [[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]]
    """
    whole = _sides(shape, aspect)
    large = values if values.shape == whole else _resample(values[..., None], whole)[..., 0]
    if whole == shape:
        return large
    starts = [abs(n - side) // 2 for n, side in zip(shape, whole, strict=True)]
    inner = tuple(slice(s, s + min(n, w)) for s, n, w in zip(starts, shape, whole, strict=True))
    if aspect == "pad":
        return np.ascontiguousarray(large[inner])
    restored = np.zeros(shape, values.dtype)
    restored[inner] = large
    return restored


def resize_spacing(
    spacing: tuple[float, ...], shape: tuple[int, ...], size: tuple[int, ...], aspect: Aspect
) -> tuple[float, ...]:
    """Return the size of a pixel in millimetres after resizing from ``shape`` to ``size``."""
    sides = _sides(shape, aspect)
    return tuple(s * a / b for s, a, b in zip(spacing, sides, size, strict=True))


def _sides(shape: tuple[int, ...], aspect: Aspect) -> tuple[int, ...]:
    """Return the sides of what is resampled: the picture itself, or its square."""
    square = {"squeeze": None, "crop": min(shape), "pad": max(shape)}[aspect]
    return shape if square is None else (square,) * len(shape)


def _shape(pixels: NDArray[Any], size: tuple[int, ...], aspect: Aspect) -> NDArray[Any]:
    """Crop to, or pad to, the proportions of a square (a cube); leave as is when squeezing."""
    space = pixels.shape[:-1]
    if aspect == "squeeze" or space == size or len(set(space)) == 1:
        return pixels
    if aspect == "crop":
        side = min(space)
        starts = [(n - side) // 2 for n in space]
        return pixels[tuple(slice(s, s + side) for s in starts)]
    side = max(space)
    before = [(side - n) // 2 for n in space]
    widths = [(b, side - n - b) for b, n in zip(before, space, strict=True)]
    return np.pad(pixels, [*widths, (0, 0)])


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
