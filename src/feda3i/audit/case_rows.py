"""Case by case: how far a mask lies outside, how it wobbles, and which are worth a second look.

Rows and lists hold the names of cases and stay at the site.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.core.cases import Cases
from feda3i.core.ragged import Stack
from feda3i.errors import DataError
from feda3i.geometry import box_around, signed_distance
from feda3i.metrics import dice
from feda3i.quality.measure import ON_BORDER
from feda3i.quality.objects import Counts, count_case

USUAL = 2.0  # times a site's usual misfit: from here on a case is worth a look
MOST = 0.05  # of a site's cases, and at least one, are to be looked at: as many as somebody opens


@dataclass(frozen=True)
class CaseRow:
    """What was measured on one case and class."""

    case: str
    site: str
    class_number: int
    offset: float  # outside the model's contour; ``NaN`` if one of the two has none
    wobble: float  # standard deviation of the gap between mask and prediction along the contours
    dice: float  # agreement of mask and prediction; ``NaN`` if both are empty
    is_drawn: bool
    is_found: bool  # whether the model marked anything
    misfit: float = math.nan  # from the prediction, drawn as the site draws
    objects: Counts | None = None  # of all classes; ``None`` if not counted


def contour_gap(
    drawn: ArrayLike, predicted: ArrayLike, spacing: Sequence[float] | None = None
) -> tuple[float, float]:
    """Return how far a drawn contour lies outside a predicted one, and how much that varies.

    The gap is the difference of a pixel's signed distances to the two contours, along either of
    them (each counts for one half), in the unit of ``spacing``. Mean and standard deviation are
    ``NaN`` if one of the two masks is empty or fills the frame.

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


def measure_cases(
    cases: Cases,
    sites: Sequence[str],
    predicted: Stack | Sequence[NDArray[np.uint8]],
    sure: Stack | None = None,
    classes: int = 1,
) -> list[CaseRow]:
    """Compare every case and class with a model's masks, beside how far its site usually draws.

    Distances are in the unit of ``cases.spacing``, in pixels without. ``predicted`` holds values
    0..C, ``sure`` the same for objects alone that the model is sure of.
    """
    rows, given = [], cases.spacing
    voxels = [None] * len(cases) if given is None else np.asarray(given, float).tolist()
    for place, (case, site) in enumerate(zip(cases.ids, sites, strict=True)):
        mask = np.asarray(cases.masks[place])
        objects = None if sure is None else count_case(mask, sure[place])
        for k in range(1, classes + 1):
            drawn, found = mask == k, predicted[place] == k
            gap, is_drawn = contour_gap(drawn, found, voxels[place]), bool(drawn.any())
            row = CaseRow(case, site, k, *gap, dice(found, drawn), is_drawn, bool(found.any()))
            rows.append(replace(row, objects=objects))
    habits = habits_of(rows)
    for number, row in enumerate(rows):
        place, k = number // classes, row.class_number
        pair = np.asarray(cases.masks[place]) == k, predicted[place] == k
        rows[number] = replace(row, misfit=misfit(*pair, habits[row.site, k], voxels[place]))
    return rows


def habits_of(rows: Sequence[CaseRow]) -> dict[tuple[str, int], float]:
    """Return how far each site usually draws outside, by site and class; 0 if unknown."""
    known: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        mine = known.setdefault((row.site, row.class_number), [])
        mine += [row.offset] if math.isfinite(row.offset) else []
    return {key: float(np.median(mine)) if mine else 0.0 for key, mine in known.items()}


def misfit(
    drawn: NDArray[np.bool_],
    predicted: NDArray[np.bool_],
    habit: float = 0.0,
    spacing: Sequence[float] | None = None,
) -> float:
    """Return the area where two masks differ, as a share of the larger one; up to 2 if they part.

    The predicted contour is first moved out by a habit, which is no mistake of a case. ``NaN`` if
    both are empty.

    >>> mask = np.zeros((8, 8), bool)
    >>> mask[2:6, 2:6] = True
    >>> misfit(mask, np.roll(mask, 1, axis=0)), misfit(mask, np.zeros((8, 8), bool))
    (0.5, 1.0)
    """
    if not drawn.any() and not predicted.any():
        return math.nan
    if predicted.any():
        reach = math.ceil(abs(habit) / (1.0 if spacing is None else min(spacing))) + 1
        window = box_around(drawn | predicted, margin=reach)
        drawn, predicted = drawn[window], predicted[window]
        moved = signed_distance(predicted, spacing) < habit
        predicted = moved if moved.any() else predicted
    return float((drawn != predicted).sum() / max(drawn.sum(), predicted.sum()))


@dataclass(frozen=True)
class SecondLook:
    """One case and why to look at it again."""

    row: CaseRow
    reason: str
    is_unusual: bool


def second_looks(rows: Sequence[CaseRow], unit: str) -> list[SecondLook]:
    """Rank one site's cases: first those whose masks fit least what a model and the habit draw.

    A habit is no reason: a site that draws everything 5 px too large gets its odd cases first, not
    those with the largest offset.
    """
    habits = habits_of(rows)
    found = [row for row in rows if row.misfit > 0]
    found.sort(key=lambda row: (-row.misfit, row.case, row.class_number))
    most = max(1, int(MOST * len({row.case for row in rows})))
    first = list(dict.fromkeys(row.case for row in found))[:most]
    usual = float(np.median([row.misfit for row in found])) if found else 0.0
    looks = []
    for row in found:
        reason = _reason(row, habits[row.site, row.class_number], unit)
        looks.append(SecondLook(row, reason, row.case in first and row.misfit > USUAL * usual))
    return looks


def _reason(row: CaseRow, habit: float, unit: str) -> str:
    if not row.is_found:
        return "the model finds nothing where something was drawn"
    if not row.is_drawn:
        return "nothing was drawn where the model finds something"
    if row.objects is not None and row.objects.wrong:
        return "an object has another class than the model gives it"
    if row.dice == 0:
        return "what was drawn and what the model finds lie apart"
    if row.objects is not None and row.objects.predicted > row.objects.matched:
        return "an object that the model sees was not drawn"
    gap = row.offset - habit
    if math.isfinite(gap) and not abs(gap) < row.wobble:
        side = "larger" if gap > 0 else "smaller"
        return f"drawn {abs(gap):.1f} {unit} {side} than this site usually does"
    return f"the contour departs from the model's by {row.wobble:.1f} {unit} here and there"
