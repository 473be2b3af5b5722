"""FedMix: sites with a higher training loss count more.

Paper
    Wicaksana et al., FedMix: Mixed Supervised Federated Learning for Medical Image Segmentation,
    IEEE TMI 2023. Row "FedMix" of the FedA3I paper, in the family of Dice-involved losses.
What changes against FedAvg
    Site: soft Dice is the only loss. Server: a site's weight mixes its share of cases c_i with its
    share of loss d_i = L_i^beta / sum_j L_j^beta, where L_i is the mean training loss of the last
    local epoch: w_i = (c_i + lambda d_i) / (1 + lambda). With lambda = 10 the loss carries 10/11 of
    the weight. beta is 2.5 for SKIN (default) and 1.5 for BREAST in the FedA3I paper.
What stays at the site
    Images, masks, optimiser moments (re-created every round).
What leaves the site
    The network's parameters, the number of cases, the mean training loss: nothing that FedAvg does
    not send. With ``second_network`` also the second network's parameters.
Cost
    As FedAvg (2 x with ``second_network``). The server gathers all replies.
Departures
    The paper's pseudo-masks for boxes and image tags are never entered, because here every site has
    a mask for every pixel, noisy or not. For the same reason the second network, which only serves
    to agree on pseudo-masks, has no influence on the first and is left out by default;
    ``second_network`` trains and averages it all the same, for cost. A HIGHER loss gives a HIGHER
    weight, as in both released notebooks; under noisy masks that favours noisy sites. ``sign = -1``
    turns it round for experiments. Crops, flips, weight decay and Adam moments that survive rounds
    belong to the original training and are not used, as all methods here train alike.
    ``dice_only = false`` trains with the recipe's ``loss`` instead, as the FedA3I paper is silent
    about a cross-entropy term.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from feda3i import losses
from feda3i.core.messages import Floats, Plan, Replies
from feda3i.methods.base import Method

if TYPE_CHECKING:
    from feda3i.core.server import Gathered, Server
    from feda3i.core.site import Batch, Site

SMOOTH = 1e-4  # of the released Dice loss, in numerator and denominator


class FedMix(Method):
    """Dice at the sites, loss-dependent weights at the server."""

    lam: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    """Weight of the loss against the number of cases (lambda in the paper); 0 counts cases only."""
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.5
    """Power of the loss; 0 counts all sites alike."""
    sign: Literal[1, -1] = 1
    """1: a higher loss counts more, as released; -1: a lower loss counts more."""
    dice_only: bool = True
    """Train with soft Dice alone, whatever ``loss`` says; ``false`` trains with ``loss``."""
    second_network: bool = False
    """Train and average a second network that changes nothing, for the cost of the original."""

    def plan(self, server: Server, round: int) -> Plan:
        """Gather all replies, because a weight depends on the losses of all sites."""
        return Plan(gather=self.lam > 0)

    def weights(self, server: Server, replies: Replies, gathered: Gathered) -> Floats:
        """Return the mixture of share of cases and share of loss."""
        exponent = self.sign * self.beta
        return mixed_weights(replies.cases, replies.number("loss"), exponent, self.lam)

    def network(self, build: Callable[[int], nn.Module]) -> nn.Module:
        """Return one network, or two side by side."""
        return Pair(build(0), build(1)) if self.second_network else build(0)

    def criterion(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the soft Dice loss of FedMix, or the recipe's loss."""
        if not self.dice_only:
            return super().criterion(logits, targets)
        return losses.soft_dice(logits, targets, smooth=SMOOTH, eps=0.0)

    def step(self, site: Site, batch: Batch) -> Tensor:
        """Return the loss of the first network; the second one adds its gradient only."""
        loss = super().step(site, batch)
        if not self.second_network:
            return loss
        second: nn.Module = site.network.get_submodule("second")
        other = self.criterion(second(batch.images), self.targets(site, batch))
        return loss + (other - other.detach())  # the weights see the first network's loss alone


def mixed_weights(cases: Floats, loss: Floats, exponent: float, lam: float) -> Floats:
    """Return ``(c_i + lam * d_i) / (1 + lam)`` with d_i proportional to ``loss_i ** exponent``.

    Parameters
    ----------
    cases, loss
        ``(site,)`` number of cases and mean training loss (not negative) of each site.
    exponent
        beta, or -beta to turn the preference round.
    lam
        Weight of the losses against the number of cases; 0 is FedAvg.

    >>> mixed_weights(np.array([10.0, 10.0]), np.array([0.2, 0.4]), 1.5, 10.0).round(6).tolist()
    [0.282913, 0.717087]
    """
    share: Floats = cases / cases.sum()
    if lam == 0 or not loss.max() > 0:
        return share
    # Scaled to a largest loss of one: no power overflows, and zero has a finite logarithm.
    power = exponent * np.log(np.maximum(loss / loss.max(), 1e-12))
    part = np.exp(power - power.max())
    mixed: Floats = (share + lam * part / part.sum()) / (1 + lam)
    return mixed


class Pair(nn.Module):
    """Two networks side by side; the first one answers."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, images: Tensor) -> Tensor:
        """Return the first network's logits."""
        logits: Tensor = self.first(images)
        return logits


METHOD = FedMix
