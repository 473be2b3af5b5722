"""SCE: symmetric cross-entropy, cross-entropy plus the same with mask and prediction exchanged.

Paper
    Wang et al., Symmetric Cross Entropy for Robust Learning with Noisy Labels, ICCV 2019.
What changes against FedAvg
    The loss: alpha * CE + beta * reverse CE, where reverse CE is -mean(p log y + (1-p) log(1-y))
    with y held within [clamp, 1 - clamp]: the mean absolute error times -log(clamp) = 11.5.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss.
Departures
    alpha = 0.5 and beta = 1 are the values of the FedA3I comparison; the SCE paper uses (0.1, 1)
    and (6, 0.1) for natural images, and clamp = 1e-4. The prediction is not clamped.
"""

from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from feda3i import losses
from feda3i.methods.base import Method


class SCE(Method):
    """FedAvg with the symmetric cross-entropy."""

    loss: Literal["ce"] = "ce"
    """The method is its own loss, of the cross-entropy family; there is no variant with Dice."""
    alpha: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.5
    """Weight of the cross-entropy."""
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Weight of the reverse cross-entropy."""
    clamp: Annotated[float, Field(gt=0, lt=0.5)] = 1e-5
    """How far masks are held off 0 and 1 inside the logarithm; it scales the reverse term."""

    def criterion(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the symmetric cross-entropy of a batch."""
        return losses.sce(logits, targets, self.alpha, self.beta, self.clamp)


METHOD = SCE
