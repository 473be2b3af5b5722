"""Score a model case by case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from feda3i.core.cases import Cases
from feda3i.core.messages import Params

if TYPE_CHECKING:
    from feda3i.core.predictor import Predictor

Row = dict[str, Any]


def score_cases(
    predictor: Predictor, params: Params | None, cases: Cases, where: Iterable[int], distances: bool
) -> list[Row]:
    """Return one row per case and class: id, class, and the scores of ``feda3i.metrics``.

    Without ``params`` the predictor is scored as it is. ``covered`` is the share of the frame that
    the model predicts as this class.
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
            if cases.sources:
                row["source"] = cases.sources[position]
            if cases.sites:
                row["site"] = cases.sites[position]
            rows.append(row)
    return rows


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
