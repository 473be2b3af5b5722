"""Score a model case by case; slices of a volume together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from feda3i.core.cases import Cases
from feda3i.core.messages import Params

if TYPE_CHECKING:
    from feda3i.core.predictor import Predictor

Row = dict[str, Any]
COUNTS = "counts"
"""Pixels in both masks, in the predicted one and in the true one: of rows that are slices."""


def score_cases(
    predictor: Predictor, params: Params | None, cases: Cases, where: Iterable[int], distances: bool
) -> list[Row]:
    """Return one row per case and class: id, class, and the scores of ``feda3i.metrics``.

    Without ``params`` the predictor is scored as it is. ``covered`` is the share of the frame that
    the model predicts as this class. Rows of slices are for ``join_slices``.
    """
    from feda3i.metrics import score_case

    positions = np.fromiter(where, dtype=np.intp)
    if not len(positions):
        return []
    masks = predictor.masks(cases.images[positions], params)
    rows: list[Row] = []
    for position, predicted in zip(positions, masks, strict=True):
        spacing = None if cases.spacing is None else tuple(cases.spacing[position])
        truth = cases.masks[position]
        for k in range(1, predictor.format.classes + 1):
            scores = score_case(predicted == k, truth == k, spacing, distances=distances)
            covered = round(float((predicted == k).mean()), 6)
            row: Row = {"case": cases.ids[position], "class": k, **scores, "covered": covered}
            if predictor.format.volumes == "slices":
                both = (predicted == k) & (truth == k), predicted == k, truth == k
                row[COUNTS] = [int(part.sum()) for part in both]
            if cases.sources:
                row["source"] = cases.sources[position]
            if cases.sites:
                row["site"] = cases.sites[position]
            rows.append(row)
    return rows


def volume_of(case: str) -> str:
    """Return the volume that a slice belongs to.

    >>> volume_of("patient-3_z012"), volume_of("patient-3")
    ('patient-3', 'patient-3')
    """
    return re.sub(r"_z\d+$", "", case)


def join_slices(rows: list[Row]) -> list[Row]:
    """Return one row per volume and class where rows are slices; other rows as they are.

    Overlaps are those of the whole volume: most slices lack a class, and a Dice of 0 or 1 for each
    of them would decide the mean. Distances are means over the slices that have one.
    """
    from feda3i.metrics import overlap_scores

    if not rows or COUNTS not in rows[0]:
        return rows
    volumes: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        volumes.setdefault((volume_of(row["case"]), row["class"]), []).append(row)
    joined: list[Row] = []
    for (volume, _), slices in volumes.items():
        kept = {k: v for k, v in slices[0].items() if k in ("class", "source", "site")}
        counts = (sum(row[COUNTS][n] for row in slices) for n in range(3))
        joined.append({"case": volume, **kept, **means_of(slices), **overlap_scores(*counts)})
    return joined


def site_means(rows: Sequence[Row]) -> list[Row]:
    """Return one row per site and class with the means of its cases, and how many they are."""
    by_site: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        by_site.setdefault((row["site"], row["class"]), []).append(row)
    return [
        {"case": site, "class": k, "cases": len(own), **means_of(own)}
        for (site, k), own in sorted(by_site.items())
    ]


def means_of(rows: Sequence[Row]) -> dict[str, float]:
    """Return the mean of every score over rows of one class; no score of a single case."""
    names = [name for name, value in (rows[0] if rows else {}).items() if isinstance(value, float)]
    return {name: mean_of(rows, name) for name in names}


def mean_of(rows: Sequence[Row], name: str) -> float:
    """Return the mean of one score over all rows that have it; NaN if none has."""
    values = np.array([row[name] for row in rows if row.get(name) is not None], dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else float("nan")
