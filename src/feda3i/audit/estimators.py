"""How far outside a border masks were drawn: by the images' edges, and by a model's contours.

Both are positive if a mask was drawn outside the border that they see, ``NaN`` where they cannot
tell. Edges combine the evidence of all cases of a site; a model's contours are compared case by
case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.core.cases import Cases
from feda3i.errors import DataError, check_choice
from feda3i.geometry import box_around, signed_distance
from feda3i.quality import SIDE, Offset, edge_offset, longest_side, measure_edges, rescaled
from feda3i.quality.offset import ON_BORDER

ESTIMATORS = ("contour", "edges")
"""``contour`` compares masks with a model's, ``edges`` with the borders in the images."""


def contour_gap(
    drawn: ArrayLike, predicted: ArrayLike, spacing: Sequence[float] | None = None
) -> tuple[float, float]:
    """Return how far a drawn contour lies outside a predicted one, and how much that varies.

    The gap at a pixel is the difference of its signed distances to the two contours; it is taken
    at the pixels along either contour. Between parallel contours it is their distance everywhere.

    Parameters
    ----------
    drawn, predicted
        ``(*space)``, not zero inside; any number of dimensions.
    spacing
        Size of a pixel along each axis; gaps are then in its unit.

    Returns
    -------
    offset, wobble
        Mean of the gap (each contour counts for one half) and its standard deviation along the
        contours; both ``NaN`` if one of the two is empty or fills the frame.

    >>> wide, narrow = np.zeros((2, 20, 20))
    >>> wide[4:16, 4:16] = 1
    >>> narrow[6:14, 6:14] = 1
    >>> offset, wobble = contour_gap(wide, narrow)
    >>> round(offset, 1), wobble < 0.3
    (2.1, True)
    """
    one, two = np.asarray(drawn) != 0, np.asarray(predicted) != 0
    if one.shape != two.shape:
        raise DataError(f"expected two masks of one shape, found {one.shape} and {two.shape}")
    if not one.any() or one.all() or not two.any() or two.all():
        return math.nan, math.nan
    window = box_around(one | two, margin=1)  # holds the whole of both borders
    one, two = one[window], two[window]
    gap = signed_distance(two, spacing).astype(np.float64) - signed_distance(one, spacing)
    along = [gap[np.abs(signed_distance(mask)) < ON_BORDER] for mask in (one, two)]
    offset = float(np.mean([part.mean() for part in along]))
    wobble = float(np.sqrt(np.mean([np.square(part - offset).mean() for part in along])))
    return offset, wobble


def case_offset(
    name: str,
    image: NDArray[Any],
    drawn: NDArray[np.bool_],
    predicted: NDArray[np.bool_] | None,
    spacing: Sequence[float] | None,
) -> float:
    """Return the offset of one case by an estimator, in the unit of its spacing."""
    if name == "edges":
        return edge_offset(image, drawn) * (1.0 if spacing is None else float(np.mean(spacing)))
    return math.nan if predicted is None else contour_gap(drawn, predicted, spacing)[0]


def check_estimators(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of estimators, each once; ``RecipeError`` for an unknown one."""
    for name in names:
        check_choice("estimator", name, ESTIMATORS)
    return tuple(dict.fromkeys(names))


def edges_of_sites(cases: Cases, sites: Sequence[str], classes: int) -> list[dict[str, Offset]]:
    """Return by class the offset of each site from the edges in its images, in px at 256."""
    places: dict[str, list[int]] = {}
    for place, site in enumerate(sites):
        places.setdefault(site, []).append(place)
    return [
        {site: _edges(cases.take(np.array(mine)), number) for site, mine in places.items()}
        for number in range(1, classes + 1)
    ]


def _edges(cases: Cases, number: int) -> Offset:
    masks = [np.asarray(mask) == number for mask in cases.masks]
    voxels = cases.voxels()
    sizes = [None] * len(masks) if voxels is None else voxels.tolist()
    sides = [longest_side(mask.shape, one) for mask, one in zip(masks, sizes, strict=True)]
    images = [np.asarray(image) for image in cases.images]
    found = measure_edges(images, masks, spacing=voxels)
    return rescaled(found, SIDE / float(np.median(sides)))
