"""The server's opinion of all sites, and the weights of those who take part in a round.

One part per class; a site's weight is the mean over the parts in which it is rated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic.dataclasses import dataclass

from feda3i.errors import RecipeError
from feda3i.quality.grouping import Grouping, group_sites
from feda3i.quality.numbers import FloatArray, Floats, Plain
from feda3i.quality.survey import SiteSurvey
from feda3i.quality.weights import GROUPS, Mass, shares, site_weights


@dataclass(frozen=True)
class Part(Plain):
    """The sites judged by one class (1 is the first foreground class).

    ``offset`` and ``edge`` are ``(site, 2)``, pixels outside the model's contours and outside the
    borders in the images, with standard errors, where sites were balanced by them.
    """

    class_number: int
    q: Floats
    grouping: Grouping
    weights: Floats
    offset: Floats | None = None
    edge: Floats | None = None

    def shared_as(self) -> NDArray[np.str_]:
        """Return the groups that keep their mass when sites are away; balanced sites are one."""
        labels = np.array(self.grouping.labels, dtype=np.str_)
        is_one = self.grouping.rule == "balance"
        return np.where(labels == "unrated", labels, "all") if is_one else labels


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
            labels = np.append(part.shared_as(), "unrated")
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

    Parameters
    ----------
    surveys
        What each site found; ``None`` for a site that could not be asked.
    r, seed
        As in ``site_weights`` and ``group_sites``.

    >>> survey = SiteSurvey.from_dict
    >>> rating = rate_sites({
    ...     "a": survey({"q": [[0.9, 0.2]], "cases": [8]}),
    ...     "b": survey({"q": [[0.2, 0.8]], "cases": [8]}),
    ...     "c": None,
    ... })
    >>> rating.weights(["a", "b", "c"], [1, 1, 2]).tolist()  # c is unrated: its share of cases
    [0.25, 0.25, 0.5]
    """
    parts = []
    for k, q in enumerate(by_class(surveys)):
        groups = group_sites(q, seed)
        parts.append(Part(k + 1, q, groups, site_weights(q, groups, r)))
    return Rating(tuple(surveys), tuple(parts))


def by_class(surveys: Mapping[str, SiteSurvey | None]) -> list[FloatArray]:
    """Return difficulties ``(site, 2)`` of each class; ``NaN`` where a site was not asked."""
    tables = {name: one.q for name, one in surveys.items() if one is not None}
    classes = {len(table) for table in tables.values()}
    if len(classes) > 1:
        raise RecipeError(f"expected surveys of the same classes, found {sorted(classes)} classes")
    missing = np.full((max(classes, default=1), 2), np.nan)
    stacked = np.array([tables.get(name, missing) for name in surveys]).reshape(-1, len(missing), 2)
    return [stacked[:, k] for k in range(len(missing))]


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
