"""How far outside the border a mask was drawn: the estimators.

An estimator is a pure function of one case and class. It returns an offset, positive if the mask
was drawn outside the border that the estimator sees, ``NaN`` where it cannot tell. A site's offset
is the median over its cases unless the estimator has a better way to combine them (``of_site``).
Sites are compared with each other, so a constant error of an estimator does no harm; with trusted
masks, ``measure_sites`` tells how far a site draws from where those were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.core.cases import Cases
from feda3i.errors import DataError, check_choice
from feda3i.geometry import box_around, signed_distance
from feda3i.quality.edges import edge_offset
from feda3i.quality.measure import Offset, calibrate_offset, measure_edges
from feda3i.quality.offset import ON_BORDER

Answers = Mapping[str, Mapping[str, Offset]]
"""By site, then by estimator."""


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
        check_choice("estimator", name, ESTIMATORS)
    return [ESTIMATORS[name] for name in dict.fromkeys(names)]


def measure_sites(
    portions: Sequence[tuple[Cases, Sequence[str]]],
    *,
    classes: int,
    estimators: Sequence[str],
    trusted: Cases | None = None,
) -> list[Answers]:
    """Return by class what estimators say of each site that look at all its cases together.

    ``portions`` are cases with the site of each; distances are in the unit of their spacing.
    ``trusted`` are cases with trusted masks, of the same size.
    """
    asked = {one.name: one.of_site for one in estimators_of(estimators) if one.of_site is not None}
    if not asked:
        return [{} for _ in range(classes)]
    found: list[Answers] = []
    for number in range(1, classes + 1):
        looks: dict[str, list[Look]] = {}
        for cases, sites in portions:
            for look, site in zip(_looks(cases, number), sites, strict=True):
                looks.setdefault(site, []).append(look)
        zero = {
            name: None if trusted is None else of_site(_looks(trusted, number))
            for name, of_site in asked.items()
        }
        found.append(
            {
                site: {name: _answer(asked[name](mine), mine, zero[name]) for name in asked}
                for site, mine in looks.items()
            }
        )
    return found


def _looks(cases: Cases, number: int) -> list[Look]:
    sizes = [None] * len(cases) if cases.spacing is None else cases.spacing.tolist()
    return [
        Look(np.asarray(image), np.asarray(mask) == number, spacing=size)
        for image, mask, size in zip(cases.images, cases.masks, sizes, strict=True)
    ]


def _answer(found: Offset, looks: Sequence[Look], zero: Offset | None) -> Offset:
    """Return a site's offset in the unit of its spacing, from trusted masks if there are any."""
    if zero is not None:
        found = calibrate_offset(found, zero, max(looks[0].drawn.shape))
    size = float(np.median([pixel_size(look) for look in looks]))
    return replace(found, offset=size * found.offset, error=size * found.error)
