"""How far outside the border a mask was drawn: the estimators.

An estimator is a pure function of one case and class. It returns an offset, positive if the mask
was drawn outside the border that the estimator sees, ``NaN`` where it cannot tell. A site's offset
is the median over its cases unless the estimator has a better way to combine them (``of_site``).
Sites are compared with each other, so a constant error of an estimator does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.errors import DataError, RecipeError, nearest
from feda3i.geometry import box_around, signed_distance
from feda3i.quality.edges import edge_offset
from feda3i.quality.measure import Offset, measure_edges

# The pixels on either side of a border have distances -0.5 and +0.5, diagonal neighbours 0.91.
ON_BORDER = 1.0


@dataclass(frozen=True)
class Look:
    """One case and class as an estimator sees it."""

    image: NDArray[Any]  # ``(*space, channel)``, on the scale of bytes
    drawn: NDArray[np.bool_]  # ``(*space)``: the annotation
    predicted: NDArray[np.bool_] | None = None
    """``(*space)``: where a model that has not seen this annotation puts the object; ``None``
    without a model."""
    spacing: Sequence[float] | None = None
    """Size of a pixel along each axis; offsets are then in its unit."""


@dataclass(frozen=True)
class Estimator:
    """A named way to measure an offset."""

    name: str
    measure: Callable[[Look], float]  # return the offset of one case, in the unit of its spacing
    needs_model: bool
    of_site: Callable[[Sequence[Look]], Offset] | None = None
    """Return a site's offset from all its cases at once, in pixels, with its standard error or the
    reason why it cannot be told; ``None``: the median over cases is used."""


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


def _by_contour(look: Look) -> float:
    if look.predicted is None:
        return math.nan
    return contour_gap(look.drawn, look.predicted, look.spacing)[0]


def _by_edges(look: Look) -> float:
    return edge_offset(look.image, look.drawn) * pixel_size(look)


def _edges_of_site(looks: Sequence[Look]) -> Offset:
    return measure_edges([look.image for look in looks], [look.drawn for look in looks])


ESTIMATORS: dict[str, Estimator] = {
    "contour": Estimator("contour", _by_contour, needs_model=True),
    "edges": Estimator("edges", _by_edges, needs_model=False, of_site=_edges_of_site),
}
"""By name: ``contour`` compares masks with a model's, ``edges`` with the borders in the images."""
DEFAULT = ("contour", "edges")
"""The first judges; the second shares no evidence with it and confirms or contradicts."""


def pixel_size(look: Look) -> float:
    """Return the mean size of a pixel along the axes; 1 without spacing."""
    return 1.0 if look.spacing is None else float(np.mean(look.spacing))


def estimators_of(names: Sequence[str]) -> list[Estimator]:
    """Return estimators by name; ``RecipeError`` for an unknown name."""
    for name in names:
        if name not in ESTIMATORS:
            raise RecipeError(
                f"estimator: expected one of {', '.join(ESTIMATORS)}, found '{name}'"
                f"{nearest(name, list(ESTIMATORS))}"
            )
    return [ESTIMATORS[name] for name in dict.fromkeys(names)]
