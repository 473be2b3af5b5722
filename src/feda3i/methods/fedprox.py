"""FedProx: keep every site near the received network while it trains.

Paper
    Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.
What changes against FedAvg
    The local loss gains (mu / 2) * ||w - w_g||^2 over all trained parameters, where w_g is the
    network received in this round.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss (with
    the proximal term).
Departures
    The FedA3I comparison tuned mu in {0.01, 0.001} and does not say which won: report both. The
    term passes through Adam (the authors: plain SGD). All sites do all epochs.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from feda3i.core.messages import Numbers
from feda3i.core.site import Batch, Site
from feda3i.methods.base import Method


class FedProx(Method):
    """FedAvg with a proximal term at the sites."""

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    """Strength of the pull; 0 is FedAvg."""

    def fit(self, site: Site) -> Numbers:
        """Train with the received network as anchor."""
        if self.mu == 0:
            return super().fit(site)
        weights = [w for w in site.network.parameters() if w.requires_grad]
        anchor = [w.detach().clone() for w in weights]

        def proximal(batch: Batch) -> Tensor:
            return self.step(site, batch) + 0.5 * self.mu * squared_distance(weights, anchor)

        return site.train(proximal)


def squared_distance(weights: Sequence[Tensor], anchor: Sequence[Tensor]) -> Tensor:
    """Return the squared Euclidean distance of two lists of tensors, with a gradient."""
    return torch.stack([((w - g) ** 2).sum() for w, g in zip(weights, anchor, strict=True)]).sum()


METHOD = FedProx
