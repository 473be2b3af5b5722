"""Predict at another scale: resize the images, predict, resize the logits back."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

SMALLEST = 32
"""Sides below this are not made smaller: a U-Net cannot train on a single smaller image."""


def scaled_shape(shape: Sequence[int], scale: float, multiple: int = 1) -> tuple[int, ...]:
    """Return a size in space at a scale, rounded down or to the nearest multiple.

    >>> [scaled_shape((256, 40), scale) for scale in (0.7, 1.0, 1.5)]
    [(179, 32), (256, 40), (384, 60)]
    >>> scaled_shape((256, 256), 0.7, multiple=32)
    (192, 192)
    """
    return tuple(_side(side, scale, multiple) for side in shape)


def _side(side: int, scale: float, multiple: int) -> int:
    length = int(side * scale + 1e-9)  # 0.7 * 30 is 20.999...
    if multiple > 1:
        length = max(1, round(side * scale / multiple)) * multiple
    return max(length, min(side, SMALLEST))


def at_scale(network: nn.Module, images: Tensor, scale: float, multiple: int = 1) -> Tensor:
    """Return the logits ``(case, class, *space)`` of images seen at a scale, at their own size."""
    shape = tuple(images.shape[2:])
    size = scaled_shape(shape, scale, multiple)
    if size == shape:
        logits: Tensor = network(images)
        return logits
    mode = "trilinear" if len(shape) == 3 else "bilinear"
    resized = functional.interpolate(images, size, mode=mode, align_corners=True)
    return functional.interpolate(network(resized), shape, mode=mode, align_corners=True)
