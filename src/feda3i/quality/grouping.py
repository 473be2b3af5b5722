"""Divide sites into those that draw too large and those that draw too small.

The paper fits a mixture of two Gaussians to the pairs (inner, outer difficulty). Two components are
also found where there are none, so every result says in words how it came about.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic.dataclasses import dataclass

from feda3i.errors import RecipeError
from feda3i.quality.numbers import FloatArray, Floats, Plain
from feda3i.seeding import derive

Label = Literal["larger", "smaller", "all", "unrated"]
LARGEST_Q = 1e6
"""No usable model has such a mean cross-entropy; beyond it covariances lose their digits."""
STARTS, STEPS = 10, 100
"""Of the mixture; five times as many starts of ten times the steps if it does not converge."""


@dataclass(frozen=True)
class Grouping(Plain):
    """Which group each site is in, and why."""

    labels: tuple[Label, ...]  # one per site; "all": there is one group only
    posterior: Floats  # ``(site,)`` probability of the larger group; ``NaN`` without groups
    strength: Floats  # ``(site,)`` how far its masks are off within its group (Eq. 5)
    rule: Literal["mixture", "balance"]  # ``"balance"``: sides of the centre, not groups
    reason: str  # the path taken, in words

    def members(self, label: Label) -> NDArray[np.intp]:
        """Return the positions of the sites with this label."""
        return np.flatnonzero([one == label for one in self.labels])

    def is_rated(self) -> NDArray[np.bool_]:
        """Return ``(site,)``: whether the site's difficulties could be used."""
        return np.array([label != "unrated" for label in self.labels], dtype=np.bool_)


def group_sites(q: ArrayLike, seed: int = 0) -> Grouping:
    """Divide sites by their difficulties ``(site, 2)``; the order of sites does not matter.

    Rows that are not finite, negative or above 1e6 make a site unrated. ``seed`` is that of the
    mixture's starts.

    >>> group_sites([[0.9, 0.2], [0.2, 0.8]]).labels
    ('larger', 'smaller')
    """
    q = check_q(q)
    rated = ((q >= 0) & (q <= LARGEST_Q)).all(axis=1)
    # A fit may depend on the order of its rows, so they always come in the same one.
    positions = np.flatnonzero(rated)
    positions = positions[np.lexsort((q[positions, 1], q[positions, 0]))]
    larger, reason = _split(q[positions], seed)
    if larger is not None and len({*(larger > 0.5)}) < 2:
        larger, reason = None, f"{reason}: a group is empty, inter-group weighting off"
    if not rated.all():
        reason += f"; {(~rated).sum()} of {len(q)} sites are unrated"
    labels: list[Label] = ["unrated"] * len(q)
    posterior = np.full(len(q), np.nan)
    for row, position in enumerate(positions):
        if larger is None:
            labels[position] = "all"
        else:
            posterior[position] = larger[row]
            labels[position] = "larger" if larger[row] > 0.5 else "smaller"
    return Grouping(tuple(labels), posterior, strengths(q, labels), "mixture", reason)


def strengths(q: ArrayLike, labels: Sequence[Label]) -> FloatArray:
    """Return ``(site,)`` noise strengths (Eq. 5) for given groups; ``NaN`` where unrated.

    It is q1 - q2 in the larger group, q2 - q1 in the smaller one; in a single group, which may hold
    masks of both kinds, |q1 - q2|.

    >>> strengths([[0.9, 0.2], [0.2, 0.8]], ["larger", "smaller"]).round(3).tolist()
    [0.7, 0.6]
    """
    q = check_q(q)
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


def _split(q: FloatArray, seed: int) -> tuple[FloatArray | None, str]:
    """Return the posterior of the larger group of rated rows (``None``: one group), and why."""
    if len(q) == 0:
        return None, "no site could be rated"
    if len(q) == 1:
        return None, "one rated site, one group"
    if np.ptp(q, axis=0).max() == 0:
        return None, "all sites have the same difficulties, one group"
    difference = q[:, 0] - q[:, 1]
    if len(q) == 2:
        second = difference[1] >= difference[0]
        return np.array(
            [not second, second], dtype=np.float64
        ), "two rated sites, one in each group"
    what, start = "two Gaussians on (q1, q2)", derive(seed, "gmm") % 2**32
    model = fit_gaussians(q, 2, start, initialisations=STARTS, iterations=STEPS)
    if model is None or not model.converged_:
        what = f"{what}, {5 * STARTS} initialisations"
        model = fit_gaussians(q, 2, start, initialisations=5 * STARTS, iterations=10 * STEPS)
    if model is None or not model.converged_:
        failed = "could not be fitted" if model is None else "did not converge"
        above = (difference > np.median(difference)).astype(np.float64)
        return above, f"two Gaussians {failed}, split at the median of q1 - q2"
    return _larger(model, q), what


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
