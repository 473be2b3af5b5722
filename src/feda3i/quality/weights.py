"""From difficulties to weights: groups, strengths (Eq. 5), sites (Eq. 6), stages (Eq. 7).

The paper fits a mixture of two Gaussians to the pairs (inner, outer difficulty). Two components are
also found where there are none, so every result says in words how it came about.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic.dataclasses import dataclass

from feda3i.errors import RecipeError, shown
from feda3i.quality.numbers import FloatArray, Floats, Plain
from feda3i.seeding import derive

Label = Literal["larger", "smaller", "all", "unrated"]
GROUPS: tuple[Label, ...] = ("larger", "smaller", "all")
Mass = float | Literal["share"]
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
    reason: str  # the path taken, in words

    def members(self, label: Label) -> NDArray[np.intp]:
        """Return the positions of the sites with this label."""
        return np.flatnonzero([one == label for one in self.labels])


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
    labels, posterior = np.full(len(q), "unrated"), np.full(len(q), np.nan)
    if larger is None:
        labels[positions] = "all"
    else:
        labels[positions] = np.where(larger > 0.5, "larger", "smaller")
        posterior[positions] = larger
    names: tuple[Label, ...] = tuple(labels.tolist())
    return Grouping(names, posterior, strengths(q, names), reason)


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
    groups = np.array(labels, dtype=np.str_)
    signs = {"larger": difference, "smaller": -difference, "all": np.abs(difference)}
    return np.select([groups == name for name in signs], list(signs.values()), np.nan)


def check_q(q: ArrayLike) -> FloatArray:
    """Return difficulties as a ``(site, 2)`` array of floats."""
    array = np.asarray(q, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise RecipeError(f"expected difficulties of shape (site, 2), found {array.shape}")
    return array


def _split(q: FloatArray, seed: int) -> tuple[FloatArray | None, str]:
    """Return the posterior of the larger group of rated rows (``None``: one group), and why."""
    if len(q) < 2:
        return None, "one rated site, one group" if len(q) else "no site could be rated"
    if np.ptp(q, axis=0).max() == 0:
        return None, "all sites have the same difficulties, one group"
    difference = q[:, 0] - q[:, 1]
    if len(q) == 2:
        second = float(difference[1] >= difference[0])
        return np.array([1 - second, second]), "two rated sites, one in each group"
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


def shares(counts: ArrayLike) -> FloatArray:
    """Return quantity weights ``(site,)``: each site's share of all cases.

    >>> shares([1, 3]).tolist()
    [0.25, 0.75]
    """
    array = np.asarray(counts, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any() or array.sum() <= 0:
        found = array.tolist()
        raise RecipeError(f"expected counts of cases per site, not all zero; found {found}")
    return array / math.fsum(array)


def site_weights(q: ArrayLike, groups: Grouping | Sequence[Label], r: Mass = 0.5) -> FloatArray:
    """Return quality weights ``(site,)`` of the rated sites (Eq. 6); they sum to one.

    A group's mass goes to its members in proportion to ``max s - s``, so the noisiest gets nothing.
    A group of one takes its whole mass, equal strengths take equal parts, and a group without a
    partner takes everything. Unrated sites get 0 here; ``Rating.weights`` gives them their share.

    ``q`` are difficulties ``(site, 2)``, ``groups`` those of ``group_sites`` or one label per site.
    ``r`` is the mass of the larger group, in [0, 1], or ``"share"``: its share of the rated sites
    (the paper's intra-group weighting alone).

    >>> q = [[0.9, 0.2], [0.6, 0.25], [0.4, 0.3], [0.2, 0.8], [0.25, 0.5]]
    >>> site_weights(q, ["larger"] * 3 + ["smaller"] * 2).round(4).tolist()
    [0.0, 0.1842, 0.3158, 0.0, 0.5]
    """
    labels = groups.labels if isinstance(groups, Grouping) else groups
    if r != "share" and (isinstance(r, str) or not 0.0 <= r <= 1.0):
        wanted = "r, the mass of the larger group: expected a number in [0, 1] or 'share'"
        raise RecipeError(f"{wanted}, found {shown(r)}")
    s = strengths(q, labels)
    names = np.array(labels, dtype=np.str_)
    members = {group: np.flatnonzero(names == group) for group in GROUPS if group in labels}
    if not members:
        return shares(np.ones(len(s)))
    if r == "share":
        r = len(members.get("larger", ())) / sum(len(where) for where in members.values())
    weights = np.zeros(len(s))
    for group, where in members.items():
        # One group only: it takes everything, whatever r says.
        part = 1.0 if len(members) == 1 else r if group == "larger" else 1.0 - r
        top = s[where].max()
        score = top - s[where]
        if score.max() <= 1e-12 * max(1.0, abs(top)):  # one site, or all are equal
            score = np.ones(len(where))
        weights[where] = part * score / math.fsum(score)
    return weights


def mix_by_stage(
    quantity: ArrayLike, quality: ArrayLike, stages: int, power: float = 1.0
) -> FloatArray:
    """Return weights ``(site, stage)``: quantity at the first stage, quality at the last (Eq. 7).

    ``alpha_j = ((j - 1) / (stages - 1)) ** power`` is the part of quality at stage j. A single
    stage counts as the first. Where alpha is 0 the quantity weights come back bit for bit.

    ``quantity`` and ``quality`` are ``(site,)``, each summing to one.

    >>> mix_by_stage([0.5, 0.5], [0.0, 1.0], 3).tolist()
    [[0.5, 0.25, 0.0], [0.5, 0.75, 1.0]]
    """
    size, good = (np.asarray(one, dtype=np.float64) for one in (quantity, quality))
    for name, values in (("quantity", size), ("quality", good)):
        if values.shape != size.shape or values.ndim != 1 or abs(values.sum() - 1) > 1e-6:
            found = f"found shape {values.shape} and sum {values.sum():g}"
            raise RecipeError(f"{name}: expected weights (site,) that sum to one, {found}")
    if stages < 1 or power < 0:
        found = f"found {stages} and {power}"
        raise RecipeError(f"expected at least one stage and a power from 0, {found}")
    alpha = np.linspace(0.0, 1.0, stages) ** power
    return good[:, None] * alpha + size[:, None] * (1 - alpha)


def effective_sites(weights: ArrayLike) -> float:
    """Return how many equally weighted sites would average as much: 1 / sum of squares.

    >>> effective_sites([0.5, 0.5, 0.0])
    2.0
    """
    array = np.asarray(weights, dtype=np.float64)
    return float(1.0 / np.square(array).sum())
