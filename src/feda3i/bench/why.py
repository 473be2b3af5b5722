"""Why a method came out as it did: how sites were grouped, and what bias their weights leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from feda3i import quality
from feda3i.log.events import Event


def offsets_of(annotators: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the true mean offset of each site, where known, in pixels at 256 px a side.

    >>> offsets_of({"a": {"mu": 1.5, "sigma": 1.0, "scale": 0.25}})
    {'a': 6.0}
    """
    return {
        site: float(one["mu"]) / float(one.get("scale", 1.0))
        for site, one in annotators.items()
        if "mu" in one
    }


def bias_of(weights: Mapping[str, float], mu: Mapping[str, float]) -> float:
    """Return sum_i w_i mu_i, the offset that these weights leave; they need not sum to one.

    >>> bias_of({"a": 3, "b": 1}, {"a": 1.0, "b": -1.0})
    0.5
    """
    return sum(w * mu[site] for site, w in weights.items()) / sum(weights.values())


def reasons_of(
    rounds: Sequence[Event], sites: Mapping[str, int], mu: Mapping[str, float]
) -> dict[str, Any]:
    """Return what is known about the weights of a run whose annotators are simulated.

    ``mu`` is the true mean offset of each site's annotator; empty if unknown.
    """
    surveys = [event for event in rounds if event.get("survey")]
    found: dict[str, Any] = {}
    if mu:
        found["residual_bias_fedavg"] = bias_of(sites, mu)
    if not surveys:
        return found
    event = surveys[-1]
    rating = quality.Rating.from_dict(event["survey"])
    cases = [float(sites[site]) for site in rating.sites]
    weights = rating.weights(rating.sites, cases)
    found["effective_sites"] = float(quality.effective_sites(weights))
    found["largest_say"] = float(weights.max())
    before = [e["dice"] for e in rounds if e["round"] < event["round"] and "dice" in e]
    found["warm_up_dice"] = before[-1] if before else None
    grouping = event["survey"]["parts"][0]["grouping"]
    found["grouping"] = str(grouping.get("reason", ""))
    if grouping.get("agreement") is not None:
        found["agreement"] = grouping["agreement"]
    if mu:
        say = dict(zip(rating.sites, weights.tolist(), strict=True))
        found["residual_bias"] = bias_of(say, mu)
        found["grouped_right"] = _grouped_right(rating, mu)
    return found


def _grouped_right(rating: quality.Rating, mu: Mapping[str, float]) -> float | None:
    """Return the share of the rated sites whose group is the sign of their annotator's offset."""
    groups = rating.parts[0].grouping.labels
    right = [
        (label == "larger") == (mu[site] > 0)
        for site, label in zip(rating.sites, groups, strict=True)
        if label in ("larger", "smaller")
    ]
    return float(np.mean(right)) if right else None
