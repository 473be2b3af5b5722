"""Central: all cases in one place, trained as one site; no federation at all.

Paper
    None: a reference row. It shows what federation itself costs, with the masks as given.
What changes against FedAvg
    One site holds the cases of all. A round is still the recipe's epochs with a fresh optimiser,
    so that a round sees every case as often as in a federation.
What stays at the site
    Optimiser moments (re-created every round).
What leaves the site
    The network's parameters, the number of cases, the mean training loss; but all images and masks
    have left their sites before. Simulations only.
Cost
    As FedAvg: the same number of training steps, but none of them at the same time as another.
Departures
    None. Batches mix the cases of all sites.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass

from feda3i.methods.base import STRICT, Method


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Central(Method):
    """FedAvg that simulations give all cases as one site."""

    is_pooled: ClassVar[bool] = True


METHOD = Central
