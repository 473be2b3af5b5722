"""Divide sites into those that draw too large and those that draw too small.

The paper fits a mixture of two Gaussians to the pairs (inner, outer difficulty). Two components are
also found where there are none, so every result says in words how it came about.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.errors import RecipeError
from feda3i.quality.numbers import FloatArray, from_json, to_json
from feda3i.seeding import derive

Label = Literal["larger", "smaller", "all", "unrated"]
# No mean cross-entropy of a usable model is near this; beyond it covariances lose their digits.
LARGEST_Q = 1e6
DOUBTFUL = 0.5
"""With less agreement than this, one start more often gives other groups than these."""
RESTARTS = 20
"""Single starts of a mixture that are compared with the best of several."""


@dataclass(frozen=True)
class Grouping:
    """Which group each site is in, and why."""

    labels: tuple[Label, ...]
    """One per site: ``"larger"``, ``"smaller"``, ``"all"`` (one group only) or ``"unrated"``."""
    posterior: FloatArray
    """``(site,)`` probability of the larger group; ``NaN`` where there is no such group."""
    strength: FloatArray
    """``(site,)`` how far a mask is off within its group (Eq. 5): q1 - q2 in the larger group, q2 -
    q1 in the smaller one, their absolute value in a single group."""
    rule: Literal["mixture", "balance"]  # ``"balance"``: sides of the centre, not groups
    reason: str  # the path taken, in words
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
    q: ArrayLike, seed: int = 0, *, initialisations: int = 10, iterations: int = 100
) -> Grouping:
    """Divide sites by their difficulties; the order of sites does not matter.

    Parameters
    ----------
    q
        ``(site, 2)`` inner and outer difficulty. Rows that are not finite, negative or above 1e6
        make a site unrated.
    seed
        Of the mixture's initialisations.
    initialisations, iterations
        Of the mixture; five times the first and ten times the second if it does not converge.

    >>> group_sites([[0.9, 0.2], [0.2, 0.8]]).labels
    ('larger', 'smaller')
    """
    q = check_q(q)
    rated, remark = _rated(q)
    # A fit may depend on the order of its rows, so they always come in the same one.
    positions = np.flatnonzero(rated)
    positions = positions[np.lexsort((q[positions, 1], q[positions, 0]))]
    larger, reason, agreement = _split(q[positions], seed, initialisations, iterations)
    if larger is not None and len({*(larger > 0.5)}) < 2:
        larger, reason = None, f"{reason}: a group is empty, inter-group weighting off"

    labels: list[Label] = ["unrated"] * len(q)
    posterior = np.full(len(q), np.nan)
    for row, position in enumerate(positions):
        if larger is None:
            labels[position] = "all"
        else:
            posterior[position] = larger[row]
            labels[position] = "larger" if larger[row] > 0.5 else "smaller"
    reason = "; ".join(part for part in (reason, remark) if part)
    strength = strengths(q, labels)
    return Grouping(tuple(labels), posterior, strength, "mixture", reason, agreement)


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


def _split(
    q: FloatArray, seed: int, initialisations: int, iterations: int
) -> tuple[FloatArray | None, str, float]:
    """Divide rated rows.

    Returned are the posterior of the larger group (``None``: one group), how it was found, and the
    share of single starts of the mixture that divide the rows alike.
    """
    if len(q) == 0:
        return None, "no site could be rated", math.nan
    if len(q) == 1:
        return None, "one rated site, one group", math.nan
    if np.ptp(q, axis=0).max() == 0:
        return None, "all sites have the same difficulties, one group", math.nan
    difference = q[:, 0] - q[:, 1]
    if len(q) == 2:
        second = difference[1] >= difference[0]
        larger = np.array([not second, second], dtype=np.float64)
        return larger, "two rated sites, one in each group", math.nan
    what, start = "two Gaussians on (q1, q2)", derive(seed, "gmm") % 2**32
    model = fit_gaussians(q, 2, start, initialisations=initialisations, iterations=iterations)
    if model is None or not model.converged_:
        initialisations, what = (
            5 * initialisations,
            f"{what}, {5 * initialisations} initialisations",
        )
        model = fit_gaussians(
            q, 2, start, initialisations=initialisations, iterations=10 * iterations
        )
    if model is None or not model.converged_:
        failed = "could not be fitted" if model is None else "did not converge"
        above = (difference > np.median(difference)).astype(np.float64)
        return above, f"two Gaussians {failed}, split at the median of q1 - q2", math.nan
    larger = _larger(model, q)
    same = 0
    for number in range(RESTARTS):
        restart = derive(seed, "gmm-restart", number) % 2**32
        single = fit_gaussians(q, 2, restart, iterations=iterations)
        same += single is not None and np.array_equal(_larger(single, q) > 0.5, larger > 0.5)
    return larger, what, same / RESTARTS


def _larger(model: Any, rows: FloatArray) -> FloatArray:
    """Return the posterior of the component with more q1 - q2, ``(site,)``."""
    component = int(np.argmax(model.means_[:, 0] - model.means_[:, 1]))
    return np.asarray(model.predict_proba(rows)[:, component], dtype=np.float64)


def fit_gaussians(
    rows: FloatArray, components: int, seed: int, *, initialisations: int = 1, iterations: int = 100
) -> Any:
    """Return scikit-learn's mixture, converged or not; ``None`` if a covariance has no inverse."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        components,
        covariance_type="full",
        reg_covar=1e-6,
        init_params="kmeans",
        n_init=initialisations,
        max_iter=iterations,
        random_state=seed,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # callers judge the result
            return model.fit(rows)
    except ValueError:  # rows on one line, far from zero: their covariance lost its digits
        return None
