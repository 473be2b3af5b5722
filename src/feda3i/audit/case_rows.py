"""One row per case and class: how far the mask lies outside, how it wobbles, what the model saw.

Rows stay at the site: they hold the names of cases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from feda3i.audit.estimators import Look, contour_gap, estimators_of
from feda3i.metrics import dice

if TYPE_CHECKING:
    from feda3i.core.cases import Cases
    from feda3i.core.ragged import Stack


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


def measure_cases(
    cases: Cases,
    sites: Sequence[str],
    predicted: Stack | Sequence[NDArray[np.uint8]] | None,
    *,
    classes: int = 1,
    seen: Sequence[bool] | None = None,
    estimators: Sequence[str] = ("contour",),
) -> list[CaseRow]:
    """Measure every case and class with every estimator.

    Distances are in the unit of ``cases.spacing``, in pixels without. ``predicted`` holds a model's
    values 0..C, ``seen`` whether it was trained on each case's mask.
    """
    asked = estimators_of(estimators)
    rows = []
    for place, (case, site) in enumerate(zip(cases.ids, sites, strict=True)):
        spacing = None if cases.spacing is None else [float(s) for s in cases.spacing[place]]
        mask = np.asarray(cases.masks[place])
        guess = None if predicted is None else predicted[place]
        for k in range(1, classes + 1):
            drawn = mask == k
            found = None if guess is None else guess == k
            look = Look(np.asarray(cases.images[place]), drawn, found, spacing)
            offsets = {one.name: one.measure(look) for one in asked} if drawn.any() else {}
            rows.append(
                CaseRow(
                    case=case,
                    site=site,
                    class_number=k,
                    offsets=offsets or {one.name: math.nan for one in asked},
                    wobble=math.nan if found is None else contour_gap(drawn, found, spacing)[1],
                    dice=math.nan if found is None else dice(found, drawn),
                    is_drawn=bool(drawn.any()),
                    is_found=None if found is None else bool(found.any()),
                    is_seen=bool(seen is not None and seen[place]),
                )
            )
    return rows
