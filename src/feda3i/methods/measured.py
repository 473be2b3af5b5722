"""How far a site draws outside the borders in its images, in pixels that it shares with the server.

They are pixels of the cases. Where cases have sizes of their own, the server knows none of them:
the offset of each case is then relative to its longest side, and told in pixels at 256.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i import quality
from feda3i.core.format import Format
from feda3i.core.normalise import Normalise
from feda3i.core.site import Site


def side_of(form: Format) -> int:
    """Return the side in pixels of the images whose pixels offsets are told in."""
    return quality.SIDE if form.patches else max(form.shape)


def edges_at(site: Site) -> list[quality.Offset]:
    """Return a site's offset for each class from the borders that its images show."""
    normalise = site.predictor.format.normalise
    images = [byte_image(site.cases.images[int(k)], normalise) for k in site.index]
    found = edges_of(images, list(site.given_masks()), site.classes, site.voxels())
    return [quality.rescaled(one, shared_scale(site)) for one in found]


def byte_image(image: ArrayLike, normalise: Normalise) -> NDArray[Any]:
    """Return an image on the scale of bytes, which is that of ``measure_edges``."""
    values = np.asarray(image)
    return values if values.dtype == np.uint8 else normalise(values)


def edges_of(
    images: Sequence[NDArray[Any]],
    masks: Sequence[NDArray[Any]],
    classes: int,
    spacing: ArrayLike | None = None,
) -> list[quality.Offset]:
    """Return the offset of label maps for each class, in pixels of the median case."""
    return [
        quality.measure_edges(images, [mask == k for mask in masks], spacing=spacing)
        for k in range(1, classes + 1)
    ]


def shared_scale(site: Site) -> float:
    """Return what brings offsets in pixels of a site's median case to those that are told."""
    return quality.SIDE / float(np.median(sides_of(site))) if site.is_patched else 1.0


def sides_of(site: Site) -> list[float]:
    """Return the longest side of each case, in pixels of the smallest side."""
    return [quality.longest_side(*case) for case in zip(site.shapes, voxels_of(site), strict=True)]


def voxels_of(site: Site) -> list[list[float] | None]:
    """Return the relative sizes of each case's voxels; ``None`` where sides are equal."""
    sizes = site.voxels()
    return [None] * len(site) if sizes is None else sizes.tolist()
