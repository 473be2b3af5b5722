"""How long a round takes and how much it sends, measured on this machine before the first round."""

from __future__ import annotations

import time
from dataclasses import dataclass

BATCH = 8
EPOCHS = 5
_STEPS = 2


@dataclass(frozen=True)
class Estimate:
    """Cost of one round at one site."""

    images_per_second: float  # trained by the paper's U-Net on this machine just now
    megabytes: float  # of the model, sent to the site and back
    epochs: int = EPOCHS

    def minutes(self, cases: int) -> float:
        """Return the minutes of one round at a site with this many cases."""
        return cases * self.epochs / self.images_per_second / 60


def estimate(
    shape: tuple[int, ...], channels: int, classes: int, *, width: int = 16, epochs: int = EPOCHS
) -> Estimate:
    """Train the U-Net on blank images for a few steps and read the clock."""
    import torch

    from feda3i.models.unet import UNet

    net = UNet(channels=channels, classes=classes, width=width, dimensions=len(shape))
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    batch = BATCH if len(shape) == 2 else 1
    # Below 32 pixels the deepest stage has one value per case: too few for BatchNorm.
    sides = tuple(max(32, side) for side in shape)
    images = torch.zeros(batch, channels, *sides)
    masks = torch.zeros(batch, classes, *sides)
    best = float("inf")
    for step in range(_STEPS + 1):
        start = time.perf_counter()
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(images), masks)
        torch.autograd.backward([loss])
        optimiser.step()
        if step:  # the first one pays for allocations
            best = min(best, time.perf_counter() - start)
    numbers = [*net.parameters(), *net.buffers()]
    megabytes = 2 * sum(t.numel() * t.element_size() for t in numbers) / 1e6
    return Estimate(batch / best, megabytes, epochs)
