"""One optimiser step after another, as the ``[train]`` section of a recipe says."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from feda3i.core.training import Training


class Stepper:
    """An optimiser for one network and one round; its moments do not outlive the round."""

    def __init__(self, network: nn.Module, training: Training, device: torch.device) -> None:
        self.clip = training.clip
        self.network, self.device = network, device
        self.dtype: torch.dtype = getattr(torch, training.precision)
        # Small gradients vanish in float16 unless the loss is scaled up before.
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.dtype == torch.float16)
        self.weights = list(network.parameters())
        self.optimiser = make_optimiser(self.weights, training, device)

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Let the network compute in the recipe's precision; its answers are float32 again."""
        if self.dtype == torch.float32:
            yield
            return
        hook = self.network.register_forward_hook(_to_float)
        try:
            with torch.autocast(self.device.type, self.dtype):
                yield
        finally:
            hook.remove()

    def take(self, loss: Tensor) -> None:
        """Go one step down this loss."""
        self.optimiser.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]  # torch leaves it so
        if self.clip > 0:
            self.scaler.unscale_(self.optimiser)
            nn.utils.clip_grad_norm_(self.weights, self.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()


def _to_float(network: nn.Module, given: Any, answer: Any) -> Any:
    return answer.float() if isinstance(answer, Tensor) else answer


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
