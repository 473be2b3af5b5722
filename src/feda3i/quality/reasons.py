"""Who has how much weight after a survey, and why, in one plain sentence per unusual site."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from feda3i.quality.rating import Part, Rating
from feda3i.quality.weights import shares

UNUSUAL = 1.5
"""A weight of this many times the share of cases, or less than the inverse, is worth a line."""
MOST_LINES = 8


def survey_lines(rating: Rating, counts: ArrayLike) -> list[str]:
    """Return the rule's own words, then one line per unusual site, the farthest from its share.

    ``counts`` are the numbers of cases ``(site,)`` of the surveyed sites.

    >>> from feda3i.quality import SiteSurvey, rate_sites
    >>> q = {"a": [0.9, 0.2], "b": [0.5, 0.2], "c": [0.2, 0.8]}
    >>> found = {name: SiteSurvey([one], [8]) for name, one in q.items()}
    >>> survey_lines(rate_sites(found), [8, 8, 8])[1].split(": ")[1]
    '0 % of the weight in the last stage (33 % of the cases)'
    """
    size, weights = shares(counts), rating.weights(rating.sites, counts)
    ratio = np.abs(np.log(np.maximum(weights, 1e-12) / np.maximum(size, 1e-12)))
    order = np.argsort(-ratio, kind="stable")
    unusual = [int(k) for k in order if ratio[k] > np.log(UNUSUAL)]
    reasons = dict.fromkeys(part.grouping.reason for part in rating.parts)
    lines = [f"survey of {len(rating.sites)} sites: {'; '.join(reasons)}"]
    for k in unusual[:MOST_LINES]:
        name = rating.sites[k]
        lines.append(
            f"{name}: {100 * weights[k]:.0f} % of the weight in the last stage "
            f"({100 * size[k]:.0f} % of the cases): {weight_reason(rating, name)}"
        )
    if len(unusual) > MOST_LINES:
        lines.append(f"and {len(unusual) - MOST_LINES} more sites, see the survey in events.jsonl")
    return lines


def weight_reason(rating: Rating, name: str) -> str:
    """Return in words why a survey gives a site its weight."""
    if name not in rating.sites:
        return "it was not surveyed"
    row = rating.sites.index(name)
    several = len(rating.parts) > 1
    return "; ".join(
        (f"class {part.class_number}: " if several else "") + _reason(part, row)
        for part in rating.parts
    )


def _reason(part: Part, row: int) -> str:
    label, groups = part.grouping.labels[row], part.grouping
    if label == "unrated":
        return "not rated, so its share of the cases counts"
    if groups.rule == "balance":
        return f"draws {groups.strength[row]:.1f} px {label} than the middle"
    members = groups.members(label)
    order = members[np.argsort(groups.strength[members], kind="stable")]
    place = int(np.flatnonzero(order == row)[0]) + 1
    kind = "all" if label == "all" else f"those who draw {label}"
    rank = "best" if place == 1 else "noisiest" if place == len(order) else f"number {place}"
    return f"{rank} of {len(order)} among {kind}"
