"""FedAdam: let the server take Adam's steps towards the average.

Paper
    Reddi et al., Adaptive Federated Optimization, ICLR 2021 (Algorithm 2, FedAdam).
What changes against FedAvg
    With d the way from the current parameters to the average of the replies, weighted by cases, the
    server keeps m <- beta1 m + (1 - beta1) d and v <- beta2 v + (1 - beta2) d^2, and each parameter
    moves by lr m / (sqrt(v) + tau): far where rounds agree, little where they do not.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss.
Cost
    That of FedAvg, and two more vectors at the server.
Departures
    v begins at tau^2, the least that the paper allows, and there is no bias correction, as there.
    lr and tau are in the middle of the paper's best ones, which it tunes for each task; so should
    you. Only trained parameters take such steps. Running statistics are averaged as FedAvg does: a
    variance that overshoots could fall below 0.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from feda3i.core.messages import Params, Plan, Replies
from feda3i.core.server import Gathered, Server
from feda3i.methods.base import Method


class FedAdam(Method):
    """Adam at the server; its moments are ``server.state["mean"]`` and ``["square"]``."""

    lr: Annotated[float, Field(gt=0, le=10)] = 0.01
    """Length of the server's step (eta in the paper)."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the running mean of the updates that is kept."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Share of the running mean of their squares that is kept."""
    tau: Annotated[float, Field(gt=0, le=1)] = 1e-3
    """How adaptive steps are: updates far below this move a parameter in proportion to them."""

    def start(self, server: Server) -> None:
        """Begin with no direction and the least square that the paper allows."""
        values = server.params.values
        server.state["mean"] = np.zeros_like(values)
        server.state["square"] = np.full_like(values, self.tau**2)

    def plan(self, server: Server, round: int) -> Plan:
        """Gather the replies: what they average to is not yet the new network."""
        return Plan(gather=True)

    def merge(self, server: Server, replies: Replies, gathered: Gathered) -> Params:
        """Return the current network after one step of Adam."""
        average = super().merge(server, replies, gathered)
        before, state = server.params.values, server.state
        update = average.values - before
        mean = self.beta1 * state["mean"] + (1 - self.beta1) * update
        square = self.beta2 * state["square"] + (1 - self.beta2) * update**2
        moved = before + self.lr * mean / (np.sqrt(square) + self.tau)
        is_trained = server.layout.trained()
        state["mean"] = np.where(is_trained, mean, 0).astype(before.dtype)
        state["square"] = np.where(is_trained, square, 0).astype(before.dtype)
        values = np.where(is_trained, moved, average.values).astype(before.dtype)
        return Params(values, average.counts)


METHOD = FedAdam
