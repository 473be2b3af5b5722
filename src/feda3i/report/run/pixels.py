"""Pixels for a page: one slice, an embedded image, contours as paths."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
LARGEST = 360
"""Pixels of the longer side of an embedded image; a phone shows no more."""


def flat(image: Bytes, masks: Mapping[str, Bytes]) -> tuple[Bytes, dict[str, Bytes]]:
    """Return image ``(row, column, channel)`` and masks; of a volume, the fullest slice."""
    if image.ndim == 3:
        return image, dict(masks)
    drawn = sum((mask > 0).astype(np.int64) for mask in masks.values())
    k = int(np.asarray(drawn).sum(axis=(1, 2)).argmax()) if masks else len(image) // 2
    return image[k], {kind: mask[k] for kind, mask in masks.items()}


def embedded(image: Bytes) -> str:
    """Return an image ``(row, column, channel)`` as a data address."""
    from PIL import Image

    pixels = image if image.shape[-1] == 3 else np.repeat(image[..., :1], 3, axis=-1)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    is_small = max(picture.size) <= 96
    if max(picture.size) > LARGEST:
        picture.thumbnail((LARGEST, LARGEST))
    buffer = BytesIO()
    # Small images keep every pixel; larger ones would make the file too large.
    kind, options = ("PNG", {"optimize": True}) if is_small else ("JPEG", {"quality": 88})
    picture.save(buffer, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def contours(mask: Bytes) -> str:
    """Return the outlines of all classes in a mask ``(row, column)`` as an SVG path.

    The outline may begin at any of its points.

    >>> path = contours(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], np.uint8))
    >>> sorted(set(path[1:].split("L")))
    ['1 1.5', '1.5 1', '1.5 2', '2 1.5']
    """
    from contourpy import contour_generator

    paths = []
    for k in np.unique(mask[mask > 0]):
        # A frame of background closes the outline of what touches the border.
        padded = np.pad(mask == k, 1).astype(np.float64)
        for line in contour_generator(z=padded).lines(0.5):
            points = np.asarray(line) - 0.5
            paths.append("M" + "L".join(f"{x:.4g} {y:.4g}" for x, y in points))
    return "".join(paths)
