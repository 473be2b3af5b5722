"""Was a mask drawn on the picture as stored, or turned upright by its EXIF tag? Edges tell.

Reading has one rule: pictures are turned upright, and masks are not unless they have a tag of their
own; only where sizes then differ is the tag ignored. Sizes say nothing if the picture is square or
merely mirrored, so the check compares how strong the edges under the contour are either way.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from feda3i.core.cases import Images, Masks
from feda3i.reading.decode import RawCase, read_pictures
from feda3i.reading.file_list import read_file
from feda3i.reading.options import Options
from feda3i.reading.pairs import Pair

CLEARLY = 1.25
"""Times by which the edges as stored must be the stronger ones before it is told."""


def edge_evidence(image: Images, mask: Masks) -> float:
    """Return how strong the edges along a mask's contour are, in those of the whole image.

    >>> image = np.zeros((32, 32, 1), np.uint8)
    >>> image[8:16, 8:16] = 200
    >>> good, bad = (image[..., 0] > 0), np.roll(image[..., 0] > 0, 12, axis=0)
    >>> edge_evidence(image, good) > 10 * edge_evidence(image, bad)
    True
    """
    grey = ndimage.gaussian_filter(image.mean(axis=-1, dtype=np.float32), 1.0)
    strength = ndimage.gaussian_gradient_magnitude(grey, 1.0)
    drawn = mask > 0
    border = ndimage.binary_dilation(drawn) & ~ndimage.binary_erosion(drawn)
    usual = float(strength.mean())
    return float(strength[border].mean()) / usual if border.any() and usual > 0 else 0.0


def judge_orientation(raw: RawCase, pair: Pair, options: Options) -> list[tuple[str, str]]:
    """Return a finding if a mask fits its picture as stored clearly better than turned upright."""
    if ("EXIF rotation", "turned upright") not in raw.notes:
        return []
    files = [read_file(file.place) for file in (*pair.images, *pair.masks)]
    flat = read_pictures(files[0], files[1:], options, upright=False)
    if flat.mask.shape != flat.image.shape[:2] or not flat.mask.any():
        return []
    stored, upright = (edge_evidence(one.image, one.mask) for one in (flat, raw))
    if stored < CLEARLY * upright:
        return []
    text = (
        f"the edges under its mask are {stored / max(upright, 1e-6):.1f} times as strong if the "
        "picture is taken as stored: if the mask was drawn so, remove the tag from the picture "
        "(exiftool -Orientation= FILE); reading turns it upright"
    )
    return [("mask drawn before EXIF rotation", text)]
