"""One optimiser step after another, as the ``[train]`` section of a recipe says."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from feda3i.core.training import Training


class Stepper:
    """An optimiser for one network and one round; its moments do not outlive the round."""

    def __init__(self, network: nn.Module, training: Training, device: torch.device) -> None:
        self.clip = training.clip
        self.weights = list(network.parameters())
        self.optimiser = make_optimiser(self.weights, training, device)

    def take(self, loss: Tensor) -> None:
        """Go one step down this loss."""
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if self.clip > 0:
            nn.utils.clip_grad_norm_(self.weights, self.clip)
        self.optimiser.step()


def make_optimiser(
    weights: Iterable[Tensor], training: Training, device: torch.device
) -> torch.optim.Optimizer:
    """Return the optimiser of the recipe for these weights, with the learning rate as it stands."""
    fused = device.type in ("cpu", "cuda")
    lr, decay = training.lr, training.weight_decay
    if training.optimiser == "sgd":
        momentum = training.momentum
        return torch.optim.SGD(weights, lr=lr, momentum=momentum, weight_decay=decay, fused=fused)
    kind = torch.optim.AdamW if training.optimiser == "adamw" else torch.optim.Adam
    return kind(weights, lr=lr, betas=training.betas, weight_decay=decay, fused=fused)
