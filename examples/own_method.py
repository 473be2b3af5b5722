"""MyMethod: sites whose network agrees with their own masks count more.

Paper
    None: an example of a method outside the package. Try it, and check its promises:

        feda3i run demo method=examples/own_method.py:MyMethod method.power=3
        feda3i check method examples/own_method.py:MyMethod
What changes against FedAvg
    After training, a site measures the Dice of its network's predictions against its own masks. Its
    weight is its number of cases times that number to a power.
What stays at the site
    Images, masks, optimiser moments.
What leaves the site
    What FedAvg sends (the network's parameters, the number of cases, the mean training loss), and
    one number per round: the agreement.
Cost
    That of FedAvg, and one prediction of all cases per round.
Departures
    None.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from feda3i.extend import Floats, Gathered, Method, Numbers, Plan, Replies, Server, Site, Wire


class MyMethod(Method):
    """FedAvg with weights that grow with the agreement of network and masks."""

    power: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0
    """How much agreement counts; 0 is FedAvg."""

    wire: ClassVar[Wire] = Wire(fit=("agreement",))

    def plan(self, server: Server, round: int) -> Plan:
        """Gather all replies, because each weight depends on all of them."""
        return Plan(gather=True)

    def fit(self, site: Site) -> Numbers:
        """Train as usual, then compare the network with the masks it was trained on."""
        numbers = super().fit(site)
        both = total = 0.0
        for batch, logits in site.predict():
            predicted = (logits > 0).float()
            both += float((predicted * batch.masks).sum())
            total += float((predicted + batch.masks).sum())
        return {**numbers, "agreement": 2 * both / total if total else 1.0}

    def weights(self, server: Server, replies: Replies, gathered: Gathered) -> Floats:
        """Return weights that sum to one, also where nothing agrees yet."""
        agreement = np.maximum(replies.number("agreement"), 0.01)
        part = replies.cases * agreement**self.power
        weights: Floats = part / part.sum()
        return weights


METHOD = MyMethod
