"""Case by case: how far a mask lies outside, how it wobbles, and which are worth a second look.

Rows and lists hold the names of cases and stay at the site.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from feda3i.audit.estimators import case_offset, check_estimators, contour_gap
from feda3i.audit.objects import Counts, count_case
from feda3i.metrics import dice

if TYPE_CHECKING:
    from feda3i.core.cases import Cases
    from feda3i.core.ragged import Stack

USUAL = 2.0
"""Times a site's usual departure above which a case is worth a look."""


@dataclass(frozen=True)
class CaseRow:
    """What was measured on one case and class."""

    case: str
    site: str
    class_number: int
    offsets: Mapping[str, float]  # by name of the estimator; ``NaN`` where it cannot say
    wobble: float  # standard deviation of the gap between mask and prediction along the contours
    dice: float  # agreement of mask and prediction; ``NaN`` if both are empty
    # Whether the annotator, and whether the model, marked anything; ``None`` without a model
    is_drawn: bool
    is_found: bool | None
    is_seen: bool = False  # whether the model was trained on this very mask
    objects: Counts | None = None  # of all classes; ``None`` without a model


def measure_cases(
    cases: Cases,
    sites: Sequence[str],
    predicted: Stack | Sequence[NDArray[np.uint8]] | None,
    *,
    classes: int = 1,
    seen: Sequence[bool] | None = None,
    estimators: Sequence[str] = ("contour",),
    sure: Stack | None = None,
) -> list[CaseRow]:
    """Measure every case and class with every estimator.

    Distances are in the unit of ``cases.spacing``, in pixels without. ``predicted`` holds a model's
    values 0..C, ``sure`` the same for objects alone that it is sure of, ``seen`` whether it was
    trained on each case's mask.
    """
    asked = check_estimators(estimators)
    rows = []
    for place, (case, site) in enumerate(zip(cases.ids, sites, strict=True)):
        spacing = None if cases.spacing is None else [float(s) for s in cases.spacing[place]]
        mask = np.asarray(cases.masks[place])
        guess = None if predicted is None else predicted[place]
        objects = None if sure is None else count_case(mask, sure[place])
        for k in range(1, classes + 1):
            drawn = mask == k
            found = None if guess is None else guess == k
            image = np.asarray(cases.images[place])
            offsets = (
                {name: case_offset(name, image, drawn, found, spacing) for name in asked}
                if drawn.any()
                else dict.fromkeys(asked, math.nan)
            )
            rows.append(
                CaseRow(
                    case=case,
                    site=site,
                    class_number=k,
                    offsets=offsets,
                    wobble=math.nan if found is None else contour_gap(drawn, found, spacing)[1],
                    dice=math.nan if found is None else dice(found, drawn),
                    is_drawn=bool(drawn.any()),
                    is_found=None if found is None else bool(found.any()),
                    is_seen=bool(seen is not None and seen[place]),
                    objects=objects,
                )
            )
    return rows


@dataclass(frozen=True)
class SecondLook:
    """One case and why to look at it again.

    ``departure`` is how far, in the root mean square along the contour, the mask lies from where
    this site would have drawn it after the model's contour; ``inf`` if the two do not meet at all.
    """

    rank: int
    case: str
    class_number: int
    reason: str
    departure: float
    offset: float
    dice: float
    is_unusual: bool


def second_looks(rows: Sequence[CaseRow], estimator: str, unit: str) -> list[SecondLook]:
    """Rank one site's cases: first those that depart most from how this site usually draws.

    A habit is no reason: a site that draws everything 5 px too large gets its odd cases first, not
    those with the largest offset.
    """
    found = []
    for number in sorted({row.class_number for row in rows}):
        found += _of_class([row for row in rows if row.class_number == number], estimator, unit)
    found.sort(key=lambda look: (-look.departure, look.case, look.class_number))
    return [replace(look, rank=place) for place, look in enumerate(found, 1)]


def _of_class(rows: Sequence[CaseRow], estimator: str, unit: str) -> list[SecondLook]:
    offsets = np.array([row.offsets[estimator] for row in rows], dtype=np.float64)
    known = offsets[np.isfinite(offsets)]
    habit = float(np.median(known)) if len(known) else 0.0
    departures = [_departure(row, offset, habit) for row, offset in zip(rows, offsets, strict=True)]
    met = [value for value in departures if math.isfinite(value) and value > 0]
    usual = float(np.median(met)) if met else math.inf
    return [
        SecondLook(
            rank=0,
            case=row.case,
            class_number=row.class_number,
            reason=_reason(row, offset, habit, unit),
            departure=departure,
            offset=offset,
            dice=row.dice,
            is_unusual=departure > USUAL * usual or math.isinf(departure),
        )
        for row, offset, departure in zip(rows, offsets, departures, strict=True)
        if departure > 0
    ]


def _departure(row: CaseRow, offset: float, habit: float) -> float:
    if row.is_found is not None and (row.is_drawn != row.is_found or row.dice == 0):
        return math.inf
    if not row.is_drawn:
        return 0.0
    wobble = row.wobble if math.isfinite(row.wobble) else 0.0
    return math.hypot(offset - habit, wobble) if math.isfinite(offset) else wobble


def _reason(row: CaseRow, offset: float, habit: float, unit: str) -> str:
    if row.is_found is False:
        return "the model finds nothing where something was drawn"
    if not row.is_drawn:
        return "nothing was drawn where the model finds something"
    if row.dice == 0:
        return "what was drawn and what the model finds lie apart"
    gap = offset - habit
    if math.isfinite(gap) and not abs(gap) < row.wobble:
        side = "larger" if gap > 0 else "smaller"
        return f"drawn {abs(gap):.1f} {unit} {side} than this site usually does"
    return f"the contour departs from the model's by {row.wobble:.1f} {unit} here and there"
