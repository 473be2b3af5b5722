"""GCE: generalised cross-entropy, which gives less weight to pixels the network disagrees with.

Paper
    Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy
    Labels, NeurIPS 2018.
What changes against FedAvg
    The loss: mean over pixels of (1 - p_y^q) / q, where p_y is the probability of the annotated
    class. q = 0.7 as in the paper and in the FedA3I comparison.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss.
Departures
    One sigmoid per class: for one foreground class this equals the paper's softmax of two classes.
    The truncated variant (pruning below k = 0.5) is not used.
"""

from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from feda3i import losses
from feda3i.methods.base import Method


class GCE(Method):
    """FedAvg with the generalised cross-entropy."""

    loss: Literal["ce"] = "ce"
    """The method is its own loss, of the cross-entropy family; there is no variant with Dice."""
    q: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Towards 0 cross-entropy, at 1 the mean absolute error."""

    def criterion(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the generalised cross-entropy of a batch."""
        return losses.gce(logits, targets, self.q)


METHOD = GCE
