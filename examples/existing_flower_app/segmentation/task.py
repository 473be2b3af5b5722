"""The app's own model, data and training loop; nothing here knows of feda3i's engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

SIZE = 32
OFFSETS = (4, 3, 3, 2, 1, 0, -1, -2)
"""Pixels by which each client draws its contours too large (or too small)."""


class Net(nn.Module):
    """A few convolutions from an image to the logits of one class."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.BatchNorm2d(8), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(8, 8, 5, padding=2), nn.BatchNorm2d(8), nn.ReLU())
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(case, 1, height, width)``."""
        logits: Tensor = self.last(self.middle(self.first(images)))
        return logits


def partition_of(node_config: Mapping[str, object]) -> int:
    """Return which client this is: Flower's simulation numbers its nodes, a site its own."""
    number = int(str(node_config["partition-id"]))
    count = int(str(node_config.get("num-partitions", len(OFFSETS))))
    if not 0 <= number < count:
        raise ValueError(f"partition-id: expected 0 to {count - 1}, found {number}")
    return number


def load_cases(partition: int, count: int = 8) -> tuple[Tensor, Tensor]:
    """Return images and masks of one client: discs, drawn with the client's own habit."""
    draw = np.random.default_rng(partition)
    offset = OFFSETS[partition % len(OFFSETS)]
    y, x = np.mgrid[:SIZE, :SIZE]
    images, masks = [], []
    for _ in range(count):
        centre, radius = draw.uniform(12, 20, 2), draw.uniform(6, 9)
        away = np.hypot(y - centre[0], x - centre[1])
        images.append((away < radius) + draw.normal(0, 0.3, (SIZE, SIZE)))
        masks.append(away < radius + offset)
    return (
        torch.from_numpy(np.stack(images)[:, None].astype(np.float32)),
        torch.from_numpy(np.stack(masks)[:, None].astype(np.float32)),
    )


def train(model: nn.Module, images: Tensor, masks: Tensor, epochs: int = 4) -> float:
    """Train and return the last loss."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    model.train()
    loss = torch.zeros(())
    for _ in range(epochs):
        for batch in torch.arange(len(images)).split(4):
            optimiser.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(
                model(images[batch]), masks[batch]
            )
            loss.backward()
            optimiser.step()
    return float(loss.detach())


def predictions(model: nn.Module, images: Tensor, masks: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield logits ``(case, class, *space)`` and masks ``(case, *space)``, batch by batch."""
    model.eval()
    with torch.inference_mode():
        for batch in torch.arange(len(images)).split(4):
            yield model(images[batch]), masks[batch, 0]


def dice(model: nn.Module, images: Tensor, masks: Tensor) -> float:
    """Return the mean Dice."""
    scores = []
    for logits, truth in predictions(model, images, masks):
        found = logits[:, 0] > 0
        both = (found & (truth > 0)).sum((1, 2))
        scores.append(2 * both / (found.sum((1, 2)) + truth.sum((1, 2))).clamp(min=1))
    return float(torch.cat(scores).mean())
