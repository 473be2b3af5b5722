"""By how many pixels a mask was drawn outside (or inside) the contour that a model predicts.

The model's own contour is not the truth: it follows what the sites draw on average. So an offset
compares a site with the others; it says nothing about all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from feda3i.errors import DataError
from feda3i.geometry import box_around, relative_sizes, signed_distance, touched_faces
from feda3i.quality.numbers import FloatArray

# The pixels on either side of a border have distances -0.5 and +0.5, diagonal neighbours 0.91.
ON_BORDER = 1.0


def contour_offset(
    drawn: ArrayLike, predicted: ArrayLike, spacing: Sequence[float] | None = None
) -> float:
    """Return how far the drawn contour lies outside the predicted one, in pixels.

    It is the mean signed distance from one contour to the other, measured both ways, in pixels of
    the smallest side; negative if the mask was drawn inside the prediction, ``NaN`` if one of the
    two is empty or fills the frame.

    >>> wide, narrow = np.zeros((2, 20, 20))
    >>> wide[4:16, 4:16] = 1
    >>> narrow[6:14, 6:14] = 1
    >>> round(contour_offset(wide, narrow))
    2
    """
    one, two = np.asarray(drawn) != 0, np.asarray(predicted) != 0
    if one.shape != two.shape:
        raise DataError(f"expected two masks of one shape, found {one.shape} and {two.shape}")
    if not one.any() or one.all() or not two.any() or two.all():
        return math.nan
    window = box_around(one | two, margin=1)  # holds the whole of both borders
    one, two, sizes = one[window], two[window], relative_sizes(spacing)
    from_one, from_two = signed_distance(one, sizes), signed_distance(two, sizes)
    if sizes is None:
        outside = from_two[np.abs(from_one) < ON_BORDER].mean(dtype=np.float64)
        inside = from_one[np.abs(from_two) < ON_BORDER].mean(dtype=np.float64)
    else:  # pixels are not as long as they are wide: every face counts by its area
        outside = np.average(from_two, weights=touched_faces(one, sizes))
        inside = np.average(from_one, weights=touched_faces(two, sizes))
    return float((outside - inside) / 2)


def site_offset(offsets: ArrayLike) -> FloatArray:
    """Return a site's offset and its standard error from those of its cases.

    The median, because a model that misses one object is off by many pixels there; its standard
    error is that of a median of normal draws, 1.253 s / sqrt(n). Both are ``NaN`` if fewer than two
    cases, or fewer than half of them, have an offset.

    >>> site_offset([2.0, 3.0, 2.0, 3.0]).round(2).tolist()
    [2.5, 0.36]
    """
    values = np.asarray(offsets, dtype=np.float64)
    known = values[np.isfinite(values)]
    if len(known) < 2 or 2 * len(known) < len(values):
        return np.full(2, np.nan)
    error = 1.253 * known.std(ddof=1) / math.sqrt(len(known))
    return np.array([np.median(known), error])
