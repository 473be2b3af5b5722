"""Divide sites into those that draw too large and those that draw too small.

The paper fits a mixture of two Gaussians to the pairs (inner, outer difficulty). Two components are
also found where there are none, so every result says in words how it came about.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.errors import RecipeError, check_choice
from feda3i.quality.gaussians import Mixture, Split
from feda3i.quality.numbers import FloatArray, from_json, to_json

Label = Literal["larger", "smaller", "all", "unrated"]
Rule = Literal["mixture", "sign", "difference", "midrange", "none"]
RULES: tuple[Rule, ...] = get_args(Rule)
# No mean cross-entropy of a usable model is near this; beyond it covariances lose their digits.
LARGEST_Q = 1e6
DOUBTFUL = 0.5
"""With less agreement than this, one start more often gives other groups than these."""


@dataclass(frozen=True)
class Grouping:
    """Which group each site is in, and why."""

    labels: tuple[Label, ...]
    """One per site: ``"larger"``, ``"smaller"``, ``"all"`` (one group only) or ``"unrated"``."""
    posterior: FloatArray
    """``(site,)`` probability of the larger group; 0 or 1 for rules without a mixture, ``NaN``
    where there is no such group."""
    strength: FloatArray
    """``(site,)`` how far a mask is off within its group (Eq. 5): q1 - q2 in the larger group, q2 -
    q1 in the smaller one, their absolute value in a single group."""
    # What was asked for (``"balance"``: sides of the centre, not groups), and the path taken in
    # words
    rule: Rule | Literal["balance"]
    reason: str
    agreement: float = math.nan
    """Share of single starts of the mixture that give these groups; ``NaN`` without a mixture."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_doubtful(self) -> bool:
        """Return whether a single start, as the authors make one, rather gives other groups."""
        return self.agreement < DOUBTFUL

    def members(self, label: Label) -> NDArray[np.intp]:
        """Return the positions of the sites with this label."""
        return np.flatnonzero([one == label for one in self.labels])

    def is_rated(self) -> NDArray[np.bool_]:
        """Return ``(site,)``: whether the site's difficulties could be used."""
        return np.array([label != "unrated" for label in self.labels], dtype=np.bool_)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and text for JSON."""
        return {
            "labels": list(self.labels),
            "posterior": to_json(self.posterior),
            "strength": to_json(self.strength),
            "rule": self.rule,
            "reason": self.reason,
            "agreement": None if math.isnan(self.agreement) else self.agreement,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the grouping that ``to_dict`` wrote."""
        return cls(
            labels=tuple(data["labels"]),
            posterior=from_json(data["posterior"]),
            strength=from_json(data["strength"]),
            rule=data["rule"],
            reason=data["reason"],
            agreement=float(from_json(data.get("agreement"))),
        )


def group_sites(
    q: ArrayLike,
    rule: Rule = "mixture",
    seed: int = 0,
    *,
    initialisations: int = 10,
    iterations: int = 100,
    bic_guard: bool = False,
    smallest_group: int = 1,
) -> Grouping:
    """Divide sites by their difficulties; the order of sites does not matter.

    Parameters
    ----------
    q
        ``(site, 2)`` inner and outer difficulty. Rows that are not finite, negative or above 1e6
        make a site unrated.
    rule
        ``"mixture"``: two Gaussians on (q1, q2), as in the paper. ``"difference"``: two Gaussians
        on q1 - q2. ``"sign"``: sign of q1 - q2. ``"midrange"``: middle of the range of
        log(q1 / q2). ``"none"``: one group.
    seed
        Of the mixture's initialisations.
    initialisations, iterations
        Of the mixture; five times the first and ten times the second if it does not converge.
    bic_guard
        Use one group where one Gaussian explains the sites better than two.
    smallest_group
        Use one group if one of the two would have fewer members.

    >>> group_sites([[0.9, 0.2], [0.2, 0.8], [0.8, 0.3]], rule="sign").labels
    ('larger', 'smaller', 'larger')
    """
    check_choice("grouping rule", rule, RULES)
    q = check_q(q)
    rated, remark = _rated(q)
    # A fit may depend on the order of its rows, so they always come in the same one.
    positions = np.flatnonzero(rated)
    positions = positions[np.lexsort((q[positions, 1], q[positions, 0]))]
    fit = Mixture(seed, initialisations, iterations, bic_guard)
    split = _split(q[positions], rule, fit)
    split = _guard(split, smallest_group)

    labels: list[Label] = ["unrated"] * len(q)
    posterior = np.full(len(q), np.nan)
    for row, position in enumerate(positions):
        if split.larger is None:
            labels[position] = "all"
        else:
            posterior[position] = split.larger[row]
            labels[position] = "larger" if split.larger[row] > 0.5 else "smaller"
    reason = "; ".join(part for part in (split.reason, remark) if part)
    strength = strengths(q, labels)
    return Grouping(tuple(labels), posterior, strength, rule, reason, split.agreement)


def strengths(q: ArrayLike, labels: Sequence[Label]) -> FloatArray:
    """Return ``(site,)`` noise strengths (Eq. 5) for given groups; ``NaN`` where unrated.

    In a single group, which may hold masks of both kinds, the strength is |q1 - q2|.

    >>> strengths([[0.9, 0.2], [0.2, 0.8]], ["larger", "smaller"]).round(3).tolist()
    [0.7, 0.6]
    """
    q = check_q(q)
    unknown = set(labels) - set(get_args(Label))
    if unknown or len(labels) != len(q):
        raise RecipeError(
            f"expected one label of {', '.join(get_args(Label))} for each of {len(q)} sites, "
            f"found {len(labels)} labels {', '.join(sorted(map(str, unknown)))}"
        )
    with np.errstate(invalid="ignore"):  # inf - inf of an unrated site
        difference = q[:, 0] - q[:, 1]
    signed = {"larger": difference, "smaller": -difference, "all": np.abs(difference)}
    undefined = np.full(len(q), np.nan)
    return np.array([signed.get(one, undefined)[i] for i, one in enumerate(labels)])


def check_q(q: ArrayLike) -> FloatArray:
    """Return difficulties as a ``(site, 2)`` array of floats."""
    array = np.asarray(q, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise RecipeError(f"expected difficulties of shape (site, 2), found {array.shape}")
    return array


def _rated(q: FloatArray) -> tuple[NDArray[np.bool_], str]:
    """Return which rows can be used, and a remark on those that cannot."""
    kinds = np.select(
        [np.isnan(q).any(1), (q < 0).any(1), (q > LARGEST_Q).any(1)],
        ["undefined", "negative", "not finite or too large"],
        default="",
    )
    found = Counter(str(kind) for kind in kinds if kind)
    parts = [f"{count} {kind}" for kind, count in sorted(found.items())]
    remark = f"unrated: {', '.join(parts)} of {len(q)} sites" if parts else ""
    return kinds == "", remark


def _split(q: FloatArray, rule: Rule, fit: Mixture) -> Split:
    """Divide rated rows by one rule; few or identical rows never reach it."""
    if len(q) == 0:
        return Split(None, "no site could be rated")
    if len(q) == 1:
        return Split(None, "one rated site, one group")
    if np.ptp(q, axis=0).max() == 0:
        return Split(None, "all sites have the same difficulties, one group")
    if rule in ("mixture", "difference") and len(q) == 2:
        second = q[1, 0] - q[1, 1] >= q[0, 0] - q[0, 1]
        larger = np.array([not second, second], dtype=np.float64)
        return Split(larger, "two rated sites, one in each group")
    return _RULES[rule](q, fit)


def _by_mixture(q: FloatArray, fit: Mixture) -> Split:
    return fit(q, q[:, 0] - q[:, 1], "two Gaussians on (q1, q2)")


def _by_difference(q: FloatArray, fit: Mixture) -> Split:
    difference = q[:, 0] - q[:, 1]
    if np.ptp(difference) <= 1e-12 * max(1.0, float(np.abs(difference).max())):
        return Split(None, "all sites have the same q1 - q2, one group")
    return fit(difference[:, None], difference, "two Gaussians on q1 - q2")


def _by_sign(q: FloatArray, fit: Mixture) -> Split:
    return Split((q[:, 0] >= q[:, 1]).astype(float), "sign of q1 - q2")


def _by_midrange(q: FloatArray, fit: Mixture) -> Split:
    # A loss of exactly zero has no logarithm; 1e-12 is below the resolution of any logit.
    ratio = np.log(np.maximum(q[:, 0], 1e-12)) - np.log(np.maximum(q[:, 1], 1e-12))
    middle = (ratio.min() + ratio.max()) / 2
    if np.ptp(ratio) <= 1e-12:  # equal but for the rounding of two logarithms
        return Split(None, "all sites have the same q1 / q2, one group")
    return Split((ratio > middle).astype(float), "middle of the range of log(q1 / q2)")


def _by_none(q: FloatArray, fit: Mixture) -> Split:
    return Split(None, "one group by request")


_RULES: dict[Rule, Callable[[FloatArray, Mixture], Split]] = {
    "mixture": _by_mixture,
    "difference": _by_difference,
    "sign": _by_sign,
    "midrange": _by_midrange,
    "none": _by_none,
}


def _guard(split: Split, smallest_group: int) -> Split:
    """Turn inter-group weighting off where a group is empty or smaller than allowed."""
    if split.larger is None:
        return split
    larger = int((split.larger > 0.5).sum())
    smallest = min(larger, len(split.larger) - larger)
    if smallest == 0:
        return Split(None, f"{split.reason}: a group is empty, inter-group weighting off")
    if smallest < smallest_group:
        why = f"a group has {smallest} of at least {smallest_group} sites"
        return Split(None, f"{split.reason}: {why}, inter-group weighting off")
    return split
