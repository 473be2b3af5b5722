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
from feda3i.geometry import box_around, signed_distance
from feda3i.metrics import dice
from feda3i.quality.objects import Counts, count_case

if TYPE_CHECKING:
    from feda3i.core.cases import Cases
    from feda3i.core.ragged import Stack

USUAL = 2.0
"""Times a site's usual misfit above which a case is worth a look."""
MOST = 0.05
"""Share of a site's cases, and at least one, that are worth a look: as many as somebody opens."""


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
    misfit: float = math.nan  # from the prediction, drawn as the site draws; ``NaN`` without one
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
    rows, gaps = [], []
    for place, (case, site) in enumerate(zip(cases.ids, sites, strict=True)):
        spacing = None if cases.spacing is None else [float(s) for s in cases.spacing[place]]
        mask = np.asarray(cases.masks[place])
        guess = None if predicted is None else predicted[place]
        objects = None if sure is None else count_case(mask, sure[place])
        for k in range(1, classes + 1):
            drawn = mask == k
            found = None if guess is None else guess == k
            image = np.asarray(cases.images[place])
            gap = (math.nan, math.nan) if found is None else contour_gap(drawn, found, spacing)
            gaps.append(gap[0])
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
                    wobble=gap[1],
                    dice=math.nan if found is None else dice(found, drawn),
                    is_drawn=bool(drawn.any()),
                    is_found=None if found is None else bool(found.any()),
                    is_seen=bool(seen is not None and seen[place]),
                    objects=objects,
                )
            )
    if predicted is None:
        return rows
    habits = _habits(rows, gaps)
    measured = []
    for number, row in enumerate(rows):
        place, k = number // classes, row.class_number
        spacing = None if cases.spacing is None else cases.spacing[place].tolist()
        drawn, found = np.asarray(cases.masks[place]) == k, predicted[place] == k
        one = misfit(drawn, found, habits[row.site, k], spacing)
        measured.append(replace(row, misfit=one))
    return measured


def _habits(rows: Sequence[CaseRow], gaps: Sequence[float]) -> dict[tuple[str, int], float]:
    """Return by site and class how far masks usually lie outside the model's contour."""
    known: dict[tuple[str, int], list[float]] = {}
    for row, gap in zip(rows, gaps, strict=True):
        mine = known.setdefault((row.site, row.class_number), [])
        mine += [gap] if math.isfinite(gap) else []
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

    rank: int
    case: str
    class_number: int
    reason: str
    misfit: float
    offset: float
    dice: float
    is_unusual: bool


def second_looks(rows: Sequence[CaseRow], estimator: str, unit: str) -> list[SecondLook]:
    """Rank one site's cases: first those whose masks fit least what a model and the habit draw.

    A habit is no reason: a site that draws everything 5 px too large gets its odd cases first, not
    those with the largest offset.
    """
    found: list[tuple[float, SecondLook]] = []
    for number in sorted({row.class_number for row in rows}):
        found += _of_class([row for row in rows if row.class_number == number], estimator, unit)
    found.sort(key=lambda one: (-one[0], one[1].case, one[1].class_number))
    most = max(1, int(MOST * len({row.case for row in rows})))
    first = list(dict.fromkeys(look.case for _, look in found))[:most]
    usual = float(np.median([away for away, _ in found])) if found else 0.0
    return [
        replace(look, rank=place, is_unusual=look.case in first and away > USUAL * usual)
        for place, (away, look) in enumerate(found, 1)
    ]


def _of_class(rows: Sequence[CaseRow], estimator: str, unit: str) -> list[tuple[float, SecondLook]]:
    """Return how far each case is off, by the model or else by the estimator, and in words."""
    offsets = np.array([row.offsets[estimator] for row in rows], dtype=np.float64)
    known = offsets[np.isfinite(offsets)]
    habit = float(np.median(known)) if len(known) else 0.0
    found = []
    for row, offset in zip(rows, offsets.tolist(), strict=True):
        away = row.misfit if row.is_found is not None else abs(offset - habit)
        if away > 0:
            look = SecondLook(
                rank=0,
                case=row.case,
                class_number=row.class_number,
                reason=_reason(row, offset, habit, unit),
                misfit=row.misfit,
                offset=offset,
                dice=row.dice,
                is_unusual=False,
            )
            found.append((away, look))
    return found


def _reason(row: CaseRow, offset: float, habit: float, unit: str) -> str:
    if row.is_found is False:
        return "the model finds nothing where something was drawn"
    if not row.is_drawn:
        return "nothing was drawn where the model finds something"
    if row.objects is not None and row.objects.wrong:
        return "an object has another class than the model gives it"
    if row.dice == 0:
        return "what was drawn and what the model finds lie apart"
    if row.objects is not None and row.objects.predicted > row.objects.matched:
        return "an object that the model sees was not drawn"
    gap = offset - habit
    if math.isfinite(gap) and not abs(gap) < row.wobble:
        side = "larger" if gap > 0 else "smaller"
        return f"drawn {abs(gap):.1f} {unit} {side} than this site usually does"
    return f"the contour departs from the model's by {row.wobble:.1f} {unit} here and there"
