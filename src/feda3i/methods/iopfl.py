"""IOP-FL: FedAvg, and beside it a personal model of each site.

Paper
    Jiang et al., IOP-FL: Inside-Outside Personalization for Federated Medical Image Segmentation,
    IEEE Transactions on Medical Imaging 2023: the inside part. Second of five methods in a
    benchmark of real annotation noise (FedSegNoiseBench, 2026).
What changes against FedAvg
    Training is that of FedAvg, bit for bit. Every site also has a personal model T_i: at its first
    reply the network w_i that it trained, later alpha T_i + (1 - alpha) w_i, running statistics
    included. Test scores are those of the personal models, one row per case and model.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss.
Departures
    alpha weighs the history, 0.1 in the authors' code: T_i is nearly the last trained network. The
    server makes T_i of the replies; the authors keep it at the site. The model file of the run
    holds the global network. A personal model learns its annotator's habit: compare it on trusted
    masks.
"""

from functools import reduce
from operator import add
from typing import Annotated

import numpy as np
from pydantic import Field

from feda3i.core.messages import Params, Plan, Replies
from feda3i.core.server import Gathered, Server
from feda3i.methods.base import Method


class IOPFL(Method):
    """FedAvg with personal models, kept in ``server.state["models"]``."""

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Weight of the history in a personal model; 0 keeps the last trained network only."""

    def start(self, server: Server) -> None:
        """Nobody has a personal model before the first reply."""
        server.state["models"] = {}

    def plan(self, server: Server, round: int) -> Plan:
        """Gather the replies: each one moves a personal model."""
        return Plan(gather=True)

    def merge(self, server: Server, replies: Replies, gathered: Gathered) -> Params:
        """Move the personal models of those who answered; return FedAvg's average."""
        kept: dict[str, Params] = server.state["models"]
        for k, site in enumerate(replies.sites):
            trained = gathered.params(k)
            kept[site] = self.moved(kept.get(site, trained), trained)
        shares = replies.share_of_cases().tolist()
        return gathered.fold(shares, reduce(add, shares, 0.0))

    def moved(self, personal: Params, trained: Params) -> Params:
        """Return the average over time; integer buffers are those of the trained network."""
        values = self.alpha * personal.values + (1 - self.alpha) * trained.values
        return Params(np.asarray(values, trained.values.dtype), trained.counts)


METHOD = IOPFL
