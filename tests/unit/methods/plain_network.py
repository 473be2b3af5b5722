"""A network without BatchNorm and without an encoder's dropout, found by its file name."""

from torch import nn


def factory(channels, classes, dimensions=2):
    """Return three convolutions."""
    conv = {2: nn.Conv2d, 3: nn.Conv3d}[dimensions]
    return nn.Sequential(
        conv(channels, 4, 3, padding=1),
        nn.ReLU(),
        conv(4, 4, 3, padding=1),
        nn.ReLU(),
        conv(4, classes, 1),
    )
