"""How far outside a mask was drawn, by one estimator or another; all have one shape.

An estimator is a pure function of one case and class: it returns an offset, positive if the mask
was drawn outside of where the estimator puts the border, ``NaN`` where it cannot say. Sites are
compared by the median over their cases, so a constant error of an estimator does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.errors import DataError, RecipeError, nearest
from feda3i.geometry import signed_distance
from feda3i.quality.edges import edge_offset

# The pixels on either side of a border have distances -0.5 and +0.5, diagonal neighbours 0.91.
ON_BORDER = 1.0


@dataclass(frozen=True)
class Look:
    """One case and class as an estimator sees it.

    Parameters
    ----------
    image
        ``(*space, channel)``, bytes.
    drawn
        ``(*space)``: the annotation.
    predicted
        ``(*space)``: where a model that has not seen this annotation puts the object; ``None``
        without a model.
    spacing
        Size of a pixel along each axis; offsets are then in its unit.
    """

    image: NDArray[np.uint8]
    drawn: NDArray[np.bool_]
    predicted: NDArray[np.bool_] | None = None
    spacing: Sequence[float] | None = None


@dataclass(frozen=True)
class Estimator:
    """A named way to measure an offset."""

    name: str
    measure: Callable[[Look], float]
    needs_model: bool


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
    window = _surroundings(one | two)
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
    """Compare with the border that the image shows; stretched pixels count by their mean size."""
    size = 1.0 if look.spacing is None else float(np.mean(look.spacing))
    return size * edge_offset(look.image, look.drawn)


ESTIMATORS: dict[str, Estimator] = {
    "contour": Estimator("contour", _by_contour, needs_model=True),
    "edges": Estimator("edges", _by_edges, needs_model=False),
}
"""By name; ``contour`` comes first because every audit with a model can use it."""


def estimators_of(names: Sequence[str]) -> list[Estimator]:
    """Return estimators by name; ``RecipeError`` for a name that there is not."""
    for name in names:
        if name not in ESTIMATORS:
            raise RecipeError(
                f"estimator: expected one of {', '.join(ESTIMATORS)}, found '{name}'"
                f"{nearest(name, list(ESTIMATORS))}"
            )
    return [ESTIMATORS[name] for name in dict.fromkeys(names)]


def _surroundings(mask: NDArray[Any]) -> tuple[slice, ...]:
    """Return the box around a mask and one pixel more, which holds the whole of both borders."""
    window = []
    for axis, side in enumerate(mask.shape):
        line = np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)))
        window.append(slice(max(int(line[0]) - 1, 0), min(int(line[-1]) + 2, side)))
    return tuple(window)
