"""The server's opinion of all sites, the weights of those who take part in a round, and why.

One part per class; a site's weight is the mean over the parts in which it is rated.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic.dataclasses import dataclass

from feda3i.errors import RecipeError
from feda3i.quality.numbers import FloatArray, Floats, Plain
from feda3i.quality.survey import SiteSurvey
from feda3i.quality.weights import GROUPS, Grouping, Mass, group_sites, shares, site_weights

UNUSUAL = 1.5  # times the share of cases: such a weight is worth a line, or less than the inverse
MOST_LINES = 8


@dataclass(frozen=True)
class Part(Plain):
    """The sites judged by one class; ``(site, ...)`` arrays as in ``SiteSurvey``."""

    class_number: int  # 1 is the first foreground class
    q: Floats
    grouping: Grouping
    weights: Floats


@dataclass(frozen=True)
class Rating(Plain):
    """All sites' groups and quality weights; the result of one survey."""

    sites: tuple[str, ...]  # names, in the order of every ``(site,)`` array in the parts
    parts: tuple[Part, ...]  # one per class

    def weights(self, present: Sequence[str], counts: ArrayLike) -> FloatArray:
        """Return quality weights ``(present,)`` that sum to one.

        ``present`` are the names of the sites that take part, ``counts`` their numbers of cases.
        Sites that no part rates have their share of the cases.
        """
        size = shares(counts)
        place = {name: position for position, name in enumerate(self.sites)}
        here = np.array([place.get(name, len(self.sites)) for name in present], dtype=np.intp)
        total, times = np.zeros(len(here)), np.zeros(len(here))
        for part in self.parts:
            labels = np.array([*part.grouping.labels, "unrated"])
            is_rated = labels[here] != "unrated"
            quality = _rescaled(np.append(part.weights, 0.0), labels, here)
            if quality is None:
                quality = np.where(is_rated, size, 0.0) / (math.fsum(size[is_rated]) or 1.0)
            total += quality
            times += is_rated
        rated = times > 0
        quality = total / np.maximum(times, 1)
        mass = math.fsum(quality)
        if mass == 0:
            return size
        return np.where(rated, quality * (math.fsum(size[rated]) / mass), size)


def rate_sites(surveys: Mapping[str, SiteSurvey | None], *, r: Mass = 0.5, seed: int = 0) -> Rating:
    """Group and weigh all sites, for every class.

    ``surveys`` are what each site found, ``None`` for a site that could not be asked; ``r`` and
    ``seed`` as in ``site_weights`` and ``group_sites``.

    >>> survey = SiteSurvey.from_dict
    >>> rating = rate_sites({
    ...     "a": survey({"q": [[0.9, 0.2]], "cases": [8]}),
    ...     "b": survey({"q": [[0.2, 0.8]], "cases": [8]}),
    ...     "c": None,
    ... })
    >>> rating.weights(["a", "b", "c"], [1, 1, 2]).tolist()  # c is unrated: its share of cases
    [0.25, 0.25, 0.5]
    """
    classes = {len(one.q) for one in surveys.values() if one is not None}
    if len(classes) > 1:
        raise RecipeError(f"expected surveys of the same classes, found {sorted(classes)} classes")
    parts, table = [], np.full((max(classes, default=1), len(surveys), 2), np.nan)
    for place, one in enumerate(surveys.values()):
        if one is not None:
            table[:, place] = one.q
    for k, q in enumerate(table, 1):
        groups = group_sites(q, seed)
        parts.append(Part(k, q, groups, site_weights(q, groups, r)))
    return Rating(tuple(surveys), tuple(parts))


def _rescaled(
    weights: FloatArray, labels: NDArray[np.str_], here: NDArray[np.intp]
) -> FloatArray | None:
    """Give every group that is present its mass again; ``None`` if no site with weight is here."""
    quality = np.zeros(len(here))
    for group in GROUPS:
        there = labels[here] == group
        part = math.fsum(weights[here[there]])
        if part > 0:
            quality[there] = weights[here[there]] * (math.fsum(weights[labels == group]) / part)
    total = math.fsum(quality)
    return quality / total if total > 0 else None


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
    row, reasons = rating.sites.index(name), []
    for part in rating.parts:
        head = f"class {part.class_number}: " if len(rating.parts) > 1 else ""
        reasons.append(head + _reason(part.grouping, row))
    return "; ".join(reasons)


def _reason(groups: Grouping, row: int) -> str:
    if (label := groups.labels[row]) == "unrated":
        return "not rated, so its share of the cases counts"
    members = groups.members(label)
    order = members[np.argsort(groups.strength[members], kind="stable")].tolist()
    place = order.index(row) + 1
    kind = "all" if label == "all" else f"those who draw {label}"
    rank = "best" if place == 1 else "noisiest" if place == len(order) else f"number {place}"
    return f"{rank} of {len(order)} among {kind}"
