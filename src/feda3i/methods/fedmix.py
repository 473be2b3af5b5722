"""FedMix: sites with a higher training loss count more.

Paper
    Wicaksana et al., FedMix: Mixed Supervised Federated Learning for Medical Image Segmentation,
    IEEE TMI 2023. Row "FedMix" of the FedA3I paper, in the family of Dice-involved losses.
What changes against FedAvg
    Soft Dice is the only loss. A site's weight mixes its share of cases c_i with its share of loss
    d_i = L_i^beta / sum_j L_j^beta, where L_i is the mean training loss of the last local epoch:
    w_i = (c_i + lambda d_i) / (1 + lambda). The FedA3I paper uses beta = 2.5 for SKIN (the default)
    and 1.5 for BREAST.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss.
Departures
    Every pixel has a mask, so pseudo-masks and the second network that makes them are left out. A
    HIGHER loss gives a HIGHER weight, as in both released notebooks; under noisy masks that favours
    noisy sites. Sites train with Dice alone (the FedA3I paper does not say).
"""

from typing import Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from feda3i import losses
from feda3i.core.messages import Floats, Plan, Replies
from feda3i.core.server import Gathered, Server
from feda3i.methods.base import Method

SMOOTH = 1e-4  # of the released Dice loss, in numerator and denominator


class FedMix(Method):
    """Dice at the sites, loss-dependent weights at the server."""

    lam: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    """Weight of the loss against the number of cases (lambda in the paper); 0 counts cases only."""
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.5
    """Power of the loss; 0 counts all sites alike."""

    def plan(self, server: Server, round: int) -> Plan:
        """Gather all replies, because a weight depends on the losses of all sites."""
        return Plan(gather=self.lam > 0)

    def weights(self, server: Server, replies: Replies, gathered: Gathered) -> Floats:
        """Return the mixture of share of cases and share of loss."""
        return mixed_weights(replies.cases, replies.number("loss"), self.beta, self.lam)

    def criterion(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the soft Dice loss of FedMix, whatever ``loss`` says."""
        return losses.soft_dice(logits, targets, smooth=SMOOTH, eps=0.0)


def mixed_weights(cases: Floats, loss: Floats, exponent: float, lam: float) -> Floats:
    """Return ``(c_i + lam * d_i) / (1 + lam)`` with d_i proportional to ``loss_i ** exponent``."""
    share: Floats = cases / cases.sum()
    if lam == 0 or not loss.max() > 0:
        return share
    # Scaled to a largest loss of one: no power overflows, and zero has a finite logarithm.
    power = exponent * np.log(np.maximum(loss / loss.max(), 1e-12))
    part = np.exp(power - power.max())
    return np.asarray((share + lam * part / part.sum()) / (1 + lam))


METHOD = FedMix
