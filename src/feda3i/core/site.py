"""A site at work: its cases as batches, its memory, and the training loop that methods use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from feda3i.core.cases import Cases, Index
from feda3i.core.layout import Layout
from feda3i.core.messages import Numbers, Order, Params
from feda3i.errors import RunError
from feda3i.methods.base import Method
from feda3i.recipe.sections import TrainSection
from feda3i.seeding import rng, torch_rng

SCORING_BATCH = 8


@dataclass(frozen=True)
class Batch:
    """Some cases of a site on its device.

    ``positions`` count within the site; ``images`` are ``(case, channel, *space)`` of 0..255,
    ``masks`` are ``(case, class, *space)`` of 0 and 1, as given by the site's annotator.
    """

    positions: Index
    images: Tensor
    masks: Tensor
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.positions)


@dataclass
class Site:
    """What a method sees of a site while it answers one order.

    Attributes
    ----------
    network
        The network, already holding the received parameters.
    memory
        Arrays that the site keeps between rounds and never sends. Index them by position of the
        case within the site; change or add entries freely.
    order
        The order being answered: round, settings, further networks.
    """

    name: str
    cases: Cases
    index: Index
    classes: int
    network: nn.Module
    layout: Layout
    order: Order
    memory: dict[str, NDArray[Any]]
    method: Method
    training: TrainSection
    seed: int
    device: torch.device

    def __len__(self) -> int:
        return len(self.index)

    @property
    def round(self) -> int:
        """Return the round of this order, counted from 1."""
        return self.order.round

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the size of a case in space."""
        return self.cases.shape

    @property
    def settings(self) -> dict[str, Any]:
        """Return the flags and numbers that the server sent."""
        return dict(self.order.settings)

    def rng(self, *scope: str | int) -> np.random.Generator:
        """Return a generator for this site, round and scope."""
        return rng(self.seed, *scope, self.name, self.round)

    def torch_rng(self, *scope: str | int) -> torch.Generator:
        """Return a torch generator (CPU) for this site, round and scope."""
        return torch_rng(self.seed, *scope, self.name, self.round)

    # -- cases ------------------------------------------------------------------------------------

    def given_masks(self, positions: Sequence[int] | Index | None = None) -> NDArray[np.uint8]:
        """Return the given masks ``(case, *space)`` with values 0..C; copies."""
        where = self.index if positions is None else self.index[np.asarray(positions)]
        return self.cases.masks[where]

    def batch(self, positions: Index, epoch: int = 0) -> Batch:
        """Return these cases as tensors on the site's device."""
        where = self.index[positions]
        images = image_tensor(self.cases.images[where], self.device)
        masks = mask_tensor(self.cases.masks[where], self.classes, self.device)
        return Batch(positions, images, masks, epoch)

    def batches(self, epoch: int = 0) -> Iterator[Batch]:
        """Yield all cases once, in an order drawn for this site, round and epoch."""
        order = self.rng("batches", epoch).permutation(len(self))
        for start in range(0, len(order), self.training.batch):
            yield self.batch(order[start : start + self.training.batch], epoch)

    # -- network ----------------------------------------------------------------------------------

    def load(self, params: Params, network: nn.Module | None = None) -> None:
        """Put parameters into a network, the site's own by default."""
        self.layout.write(params, self.network if network is None else network)

    def optimiser(self, network: nn.Module | None = None) -> torch.optim.Optimizer:
        """Return a fresh optimiser: its moments do not outlive the round."""
        parameters = (self.network if network is None else network).parameters()
        fused = self.device.type in ("cpu", "cuda")
        return torch.optim.Adam(
            parameters, lr=self.training.lr, betas=self.training.betas, fused=fused
        )

    def train(
        self, step: Callable[[Batch], Tensor], after: Callable[[], None] | None = None
    ) -> Numbers:
        """Run the recipe's epochs of ``step``, backward and Adam; return the last epoch's loss.

        ``after`` is called after each Adam step, for what acts on the weights themselves.
        """
        self.network.train()
        optimiser = self.optimiser()
        mean = math.nan
        for epoch in range(self.training.epochs):
            total = 0.0
            for batch in self.batches(epoch):
                optimiser.zero_grad(set_to_none=True)
                loss = step(batch)
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                optimiser.step()
                if after is not None:
                    after()
                total += self.checked(loss) * len(batch)
            mean = total / len(self)
        return {"loss": mean}

    def checked(self, loss: Tensor) -> float:
        """Return a loss as a number; raise ``RunError`` if it is not finite."""
        value = float(loss.detach())
        if not math.isfinite(value):
            raise RunError(
                f"the training loss became {value} at site {self.name} in round {self.round}; "
                f"try a smaller train.lr (now {self.training.lr})"
            )
        return value

    def predict(self, network: nn.Module | None = None) -> Iterator[tuple[Batch, Tensor]]:
        """Yield all cases in order with their logits, in eval mode and without gradients."""
        network = self.network if network is None else network
        was_training = network.training
        network.eval()
        try:
            for start in range(0, len(self), SCORING_BATCH):
                batch = self.batch(np.arange(start, min(start + SCORING_BATCH, len(self))))
                with torch.inference_mode():
                    logits = self.method.predict(network, batch.images)
                yield batch, logits
        finally:
            network.train(was_training)


def image_tensor(images: NDArray[np.uint8], device: torch.device) -> Tensor:
    """Return ``(case, *space, channel)`` bytes as ``(case, channel, *space)`` floats of 0..255.

    Channels stay last in memory, which convolutions on CPU and GPU prefer.
    """
    tensor = torch.from_numpy(images).to(device)
    tensor = tensor.permute(0, tensor.ndim - 1, *range(1, tensor.ndim - 1))
    return tensor.to(torch.get_default_dtype(), memory_format=channels_last(tensor.ndim - 2))


def mask_tensor(masks: NDArray[np.uint8], classes: int, device: torch.device) -> Tensor:
    """Return ``(case, *space)`` values 0..C as ``(case, class, *space)`` floats of 0 and 1."""
    tensor = torch.from_numpy(masks).to(device)
    return torch.stack([tensor == k + 1 for k in range(classes)], dim=1).to(
        torch.get_default_dtype()
    )


def channels_last(dimensions: int) -> torch.memory_format:
    """Return the memory format that keeps channels last in two or three dimensions."""
    return torch.channels_last if dimensions == 2 else torch.channels_last_3d
