"""FedAvgM: give the server's step a momentum.

Paper
    Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification, 2019.
What changes against FedAvg
    With d the way from the current parameters to the average of the replies, weighted by cases, the
    server keeps v <- beta v + d and moves by lr v. Rounds that pull the same way add up.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss.
Cost
    That of FedAvg, and one more vector at the server.
Departures
    Only trained parameters have a momentum. Running statistics are averaged as FedAvg does: a
    variance that overshoots could fall below 0. beta = 0 with lr = 1 is FedAvg up to rounding.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from feda3i.core.messages import Params, Plan, Replies
from feda3i.core.server import Gathered, Server
from feda3i.methods.base import Method


class FedAvgM(Method):
    """FedAvg with momentum at the server, kept in ``server.state["velocity"]``."""

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of its speed that the server keeps; 0 has no momentum."""
    lr: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Length of the server's step. At a steady pull the speed is 1 / (1 - beta) of it."""

    def start(self, server: Server) -> None:
        """Stand still before the first round."""
        server.state["velocity"] = np.zeros_like(server.params.values)

    def plan(self, server: Server, round: int) -> Plan:
        """Gather the replies: what they average to is not yet the new network."""
        return Plan(gather=True)

    def merge(self, server: Server, replies: Replies, gathered: Gathered) -> Params:
        """Return the current network moved on with momentum."""
        mean = super().merge(server, replies, gathered)
        before, is_trained = server.params.values, server.layout.trained()
        velocity = self.beta * server.state["velocity"] + (mean.values - before)
        server.state["velocity"] = np.where(is_trained, velocity, 0).astype(before.dtype)
        moved = before + self.lr * server.state["velocity"]
        values = np.where(is_trained, moved, mean.values).astype(before.dtype)
        return Params(values, mean.counts)


METHOD = FedAvgM
