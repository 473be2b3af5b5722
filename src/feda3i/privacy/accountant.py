"""How much a run tells about a site: (epsilon, delta), from a library's Gaussian accountant.

All mechanisms here are Gaussian, and every site takes part in every round it is asked in, so no
round hides a site by chance. Gaussian mechanisms with multipliers m_1, m_2, ... together are one
with 1/m^2 = sum of 1/m_i^2, exactly; its epsilon is that of ``dp_accounting``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from feda3i.core.messages import Floats

VIEWS = ("server", "models")


def epsilon_of(spent: float, delta: float) -> float:
    """Return epsilon for a sum of 1/m^2 over all messages of a site; 0 if there were none.

    >>> round(epsilon_of(1.0, 1e-5), 3)  # one message with a noise multiplier of 1
    4.377
    """
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    if not spent:
        return 0.0
    if math.isinf(spent):
        return math.inf
    return float(get_epsilon_gaussian(1 / math.sqrt(spent), delta, tol=1e-9))


def noise_cover(weights: Floats) -> Floats:
    """Return ``(site,)``: how many times more noise the sum has than the site's own part of it.

    Every site adds noise of the same strength before it is weighted by ``(site, stage)``. In stage
    s the sum holds noise of sqrt(sum_j w_js^2), and site i moves it by w_is: the stage where that
    is worst counts.

    >>> noise_cover(np.full((4, 1), 0.25)).tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    total = np.sqrt((weights**2).sum(axis=0))
    with np.errstate(divide="ignore"):
        found: Floats = (total / weights).min(axis=1)
    return found


class Spending:
    """The sums of 1/m^2 by site, for two kinds of onlookers; plain data for a checkpoint.

    ``server`` is for who runs the server, ``models`` for who sees only the models of all rounds:
    the other sites, and everybody who gets the final one. A fit has ``blocks`` of values and some
    ``numbers``, which the server may use for the next model.
    """

    def __init__(
        self, noise_multiplier: float, blocks: int, numbers: int, kept: dict[str, dict[str, float]]
    ) -> None:
        self.z, self.kept = noise_multiplier, kept
        self.of_numbers = numbers / (blocks + numbers)
        for view in VIEWS:
            kept.setdefault(view, {})

    def _spend(self, view: str, site: str, amount: float) -> None:
        self.kept[view][site] = self.kept[view].get(site, 0.0) + amount

    def survey(self, sites: Sequence[str]) -> None:
        """Count a survey; the weights that follow from it show in the models."""
        for site in sites:
            for view in VIEWS:
                self._spend(view, site, self._one())

    def fit(self, asked: list[str], weights: Mapping[str, list[float]], is_secure: bool) -> None:
        """Count a training round for everybody who was asked to train.

        ``weights`` are those of the sites whose updates are in the sum, by stage. ``is_secure``:
        the server saw the sum only; it sees single numbers all the same.
        """
        found = noise_cover(np.array(list(weights.values())))
        by_site = {site: float(g) for site, g in zip(weights, found, strict=True)}
        for site in asked:
            gain = by_site.get(site, math.inf)
            in_sum = (1 - self.of_numbers) / gain**2 + self.of_numbers
            self._spend("models", site, in_sum * self._one())
            self._spend("server", site, (in_sum if is_secure else 1.0) * self._one())

    def _one(self) -> float:
        return 1 / self.z**2 if self.z > 0 else math.inf

    def worst(self, delta: float) -> dict[str, float]:
        """Return delta and, for each kind of onlooker, the epsilon of the site that tells most."""
        most = {view: max(self.kept[view].values(), default=0.0) for view in VIEWS}
        return {"delta": delta} | {f"epsilon_{v}": epsilon_of(most[v], delta) for v in VIEWS}
