"""From groups and strengths to the weight of every site (Eq. 6) at every stage (Eq. 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from feda3i.errors import RecipeError, shown
from feda3i.quality.grouping import Grouping, Label, strengths
from feda3i.quality.numbers import FloatArray

Mass = float | Literal["share"]
GROUPS: tuple[Label, ...] = ("larger", "smaller", "all")


def shares(counts: ArrayLike) -> FloatArray:
    """Return quantity weights ``(site,)``: each site's share of all cases.

    >>> shares([1, 3]).tolist()
    [0.25, 0.75]
    """
    array = np.asarray(counts, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any() or array.sum() <= 0:
        raise RecipeError(
            f"expected counts of cases per site, not all zero; found {array.tolist()}"
        )
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
    labels = groups.labels if isinstance(groups, Grouping) else tuple(groups)
    if r != "share" and (isinstance(r, str) or not 0.0 <= r <= 1.0):
        raise RecipeError(
            f"r is the mass of the larger group: expected a number in [0, 1] or 'share', found "
            f"{shown(r)}"
        )
    s = strengths(q, labels)
    members = {group: np.flatnonzero([one == group for one in labels]) for group in GROUPS}
    members = {group: where for group, where in members.items() if len(where)}
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
            raise RecipeError(
                f"{name}: expected weights (site,) that sum to one, found shape {values.shape} "
                f"and sum {values.sum():g}"
            )
    if stages < 1 or power < 0:
        raise RecipeError(
            f"expected at least one stage and a power from 0, found {stages} and {power}"
        )
    alpha = np.linspace(0.0, 1.0, stages) ** power
    return good[:, None] * alpha + size[:, None] * (1 - alpha)


def effective_sites(weights: ArrayLike) -> float:
    """Return how many equally weighted sites would average as much: 1 / sum of squares.

    >>> effective_sites([0.5, 0.5, 0.0])
    2.0
    """
    array = np.asarray(weights, dtype=np.float64)
    return float(1.0 / np.square(array).sum())
