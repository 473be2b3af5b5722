"""NR-Dice: a Dice loss with a power below two, between the mean absolute error and Dice.

Paper
    Wang et al., A Noise-robust Framework for Automatic Segmentation of COVID-19 Pneumonia Lesions
    from CT Images, IEEE Transactions on Medical Imaging 2020. Row "DC" of the FedA3I comparison.
What changes against FedAvg
    The loss: sum |p - y|^gamma / (sum p^2 + sum y^2 + 1e-5), gamma = 1.5. At gamma = 2 it is the
    Dice loss 1 - 2 sum(p y) / (sum p^2 + sum y^2). No cross-entropy is added.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss.
Departures
    The foreground of each sigmoid only; the authors' toolkit (PyMIC) averages over both softmax
    channels and divides by sum p + sum y, with which gamma = 2 is not the Dice loss. A batch
    without an annotated pixel gets PyMIC's denominator: squares would reward false foreground.
"""

from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from feda3i import losses
from feda3i.methods.base import Method


class NRDice(Method):
    """FedAvg with the noise-robust Dice loss."""

    loss: Literal["dc"] = "dc"
    """The method is its own loss, of the Dice family; there is no variant with cross-entropy."""
    gamma: Annotated[float, Field(ge=1, le=2)] = 1.5
    """At 1 close to the mean absolute error, at 2 the Dice loss."""

    def criterion(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the noise-robust Dice loss of a batch."""
        return losses.nr_dice(logits, targets, self.gamma)


METHOD = NRDice
