"""A network of your own: a function that returns an ``nn.Module`` with one logit per class.

FedA3I weights early and late stages differently. Name yours in ``stages``, from input to output;
without it one forward pass finds them. Try it:

    feda3i run demo model=examples/own_network.py:tiny model.width=8
    feda3i explain model examples/own_network.py:tiny
"""

from torch import Tensor, nn


class Tiny(nn.Module):
    """Two convolutions and a head; pictures of any size."""

    stages = ("first", "second", "head")

    def __init__(self, channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(case, class, height, width)`` of images with values of 0..255."""
        logits: Tensor = self.head(self.second(self.first(images / 128 - 1)))
        return logits


def tiny(channels: int, classes: int, *, width: int = 16) -> nn.Module:
    """Return the network; options after ``*`` are keys of the recipe's section ``[model]``."""
    return Tiny(channels, classes, width)
