"""The server's opinion of all sites, and the weights of those who take part in a round.

One part per class; a site's weight is the mean over the parts in which it is rated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.errors import RecipeError
from feda3i.quality.balance import Balance, balance_sites
from feda3i.quality.edges import SIDE
from feda3i.quality.grouping import Grouping, Label, group_sites
from feda3i.quality.numbers import FloatArray, from_json, to_json
from feda3i.quality.survey import SiteSurvey
from feda3i.quality.weights import GROUPS, Mass, effective_sites, shares, site_weights


@dataclass(frozen=True)
class Part:
    """The sites judged by one class (1 is the first foreground class).

    ``offset`` and ``edge`` are ``(site, 2)``, pixels outside the model's contours and outside the
    borders in the images, with standard errors, where sites were balanced by them.
    """

    class_number: int
    q: FloatArray
    grouping: Grouping
    weights: FloatArray
    offset: FloatArray | None = None
    edge: FloatArray | None = None

    @property
    def shared_as(self) -> tuple[Label, ...]:
        """Return the groups that keep their mass when sites are away; balanced sites are one."""
        labels = self.grouping.labels
        if self.grouping.rule != "balance":
            return labels
        return tuple("unrated" if label == "unrated" else "all" for label in labels)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that was found, for the event log and the checkpoint."""
        return {
            "class_number": self.class_number,
            "q": to_json(self.q),
            "grouping": self.grouping.to_dict(),
            "weights": to_json(self.weights),
            "effective_sites": effective_sites(self.weights),
            **({} if self.offset is None else {"offset": to_json(self.offset)}),
            **({} if self.edge is None else {"edge": to_json(self.edge)}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the part that ``to_dict`` wrote."""
        return cls(
            class_number=data["class_number"],
            q=from_json(data["q"]).reshape(-1, 2),
            grouping=Grouping.from_dict(data["grouping"]),
            weights=from_json(data["weights"]),
            offset=from_json(data["offset"]).reshape(-1, 2) if "offset" in data else None,
            edge=from_json(data["edge"]).reshape(-1, 2) if "edge" in data else None,
        )


@dataclass(frozen=True)
class Rating:
    """All sites' groups and quality weights; the result of one survey."""

    sites: tuple[str, ...]  # names, in the order of every ``(site,)`` array in the parts
    parts: tuple[Part, ...]  # one per class

    def weights(self, present: Sequence[str], counts: ArrayLike) -> FloatArray:
        """Return quality weights ``(present,)`` that sum to one.

        ``present`` are the names of the sites that take part, ``counts`` their numbers of cases;
        names that were never surveyed count as unrated.
        """
        place = {name: position for position, name in enumerate(self.sites)}
        here = np.array([place.get(name, len(self.sites)) for name in present], dtype=np.intp)
        judged = [
            (np.append(part.weights, 0.0), (*part.shared_as, "unrated")) for part in self.parts
        ]
        return _combine(judged, here, shares(counts))

    def unrated(self, present: Sequence[str]) -> list[str]:
        """Return those of the given sites whom no part rates: ask them for a survey."""
        rated = np.any([part.grouping.is_rated() for part in self.parts], axis=0)
        known = {name for name, is_rated in zip(self.sites, rated, strict=True) if is_rated}
        return [name for name in present if name not in known]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"sites": list(self.sites), "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the rating that ``to_dict`` wrote."""
        return cls(tuple(data["sites"]), tuple(Part.from_dict(part) for part in data["parts"]))


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
    for k, q in enumerate(_columns(surveys)):
        groups = group_sites(q, seed)
        parts.append(Part(k + 1, q, groups, site_weights(q, groups, r)))
    return Rating(tuple(surveys), tuple(parts))


def balance_by_offset(
    surveys: Mapping[str, SiteSurvey | None], counts: Mapping[str, float], side: float = SIDE
) -> Rating:
    """Weigh all sites by ``balance_sites``, for every class: the rule for few sites.

    Parameters
    ----------
    surveys
        What each site found, with offsets; ``None`` for a site that could not be asked.
    counts
        Cases of every site.
    side
        Longest side of the images in pixels.
    """
    sites = tuple(surveys)
    quantity = [counts[name] for name in sites]
    parts = []
    for k, q in enumerate(_columns(surveys)):
        offset, edge = np.full((2, len(sites), 2), np.nan)
        for row, survey in enumerate(surveys.values()):
            if survey is not None and survey.offset is not None:
                offset[row] = survey.offset[k]
            if survey is not None and survey.edge is not None:
                edge[row] = survey.edge[k]
        found = balance_sites(
            offset[:, 0], offset[:, 1], quantity, edge[:, 0], edge[:, 1], side=side
        )
        groups = _sides(found)
        rated = groups.is_rated()
        weights = np.where(rated, found.weights, 0.0) if rated.any() else found.weights
        parts.append(Part(k + 1, q, groups, weights, offset, edge))
    return Rating(sites, tuple(parts))


def _sides(found: Balance) -> Grouping:
    """Return on which side of the centre each site draws, and how far from it."""
    rated = np.isfinite(found.places)
    middle = np.median(found.places[rated]) if rated.any() else 0.0
    away = found.places - (found.centre if np.isfinite(found.centre) else middle)
    labels: list[Label] = [
        "unrated" if not is_rated else "larger" if gap > 0 else "smaller"
        for is_rated, gap in zip(rated, away, strict=True)
    ]
    unknown = np.full(len(away), np.nan)
    return Grouping(tuple(labels), unknown, np.abs(away), "balance", found.reason)


def _combine(
    judged: Sequence[tuple[FloatArray, Sequence[Label]]], here: NDArray[np.intp], size: FloatArray
) -> FloatArray:
    """Return the mean over parts, of those that rate a site; unrated by all: its share of cases."""
    total, times = np.zeros(len(here)), np.zeros(len(here))
    for weights, labels in judged:
        is_rated = np.array([labels[i] in GROUPS for i in here], dtype=np.bool_)
        quality = _rescaled(weights, labels, here)
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


def _rescaled(
    weights: FloatArray, labels: Sequence[Label], here: NDArray[np.intp]
) -> FloatArray | None:
    """Give every group that is present its mass again; ``None`` if no site with weight is here."""
    quality = np.zeros(len(here))
    for group in GROUPS:
        there = np.array([labels[i] == group for i in here], dtype=np.bool_)
        part = math.fsum(weights[here[there]])
        if part > 0:
            mass = math.fsum(weights[np.array([label == group for label in labels])])
            quality[there] = weights[here[there]] * (mass / part)
    total = math.fsum(quality)
    return quality / total if total > 0 else None


def _columns(surveys: Mapping[str, SiteSurvey | None]) -> list[FloatArray]:
    """Return one ``(site, 2)`` array per class, ``NaN`` where a site was not asked."""
    tables = {name: one.q for name, one in surveys.items() if one is not None}
    classes = {len(table) for table in tables.values()}
    if len(classes) > 1:
        raise RecipeError(f"expected surveys of the same classes, found {sorted(classes)} classes")
    missing = np.full((max(classes, default=1), 2), np.nan)
    stacked = np.array([tables.get(name, missing) for name in surveys]).reshape(-1, len(missing), 2)
    return [stacked[:, k] for k in range(len(missing))]
