"""Two networks that choose pixels for each other: the arithmetic of RMD, on logits.

A pixel is chosen or left out with all its classes: its loss, error and divergence are means over
the classes. Choices are made over the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from feda3i import losses

_OTHER = ((0, 1), (1, 0))


def per_pixel(values: Tensor) -> Tensor:
    """Return ``(case, class, *space)`` as means over the classes, one number per pixel."""
    return values.mean(1).flatten()


def smallest(values: Tensor, count: int) -> Tensor:
    """Return the positions of the smallest values, exactly ``count`` of them.

    >>> sorted(smallest(torch.tensor([3.0, 1.0, 2.0, 0.0]), 2).tolist())
    [1, 3]
    """
    return torch.topk(values, count, largest=False, sorted=False).indices


def exchange(logits: Sequence[Tensor], masks: Tensor, share: float) -> list[Tensor]:
    """Return each network's mean cross-entropy over the pixels on which the other's is smallest.

    Logits of both networks and masks of 0 and 1 are ``(case, class, *space)``; the share, in
    (0, 1], is that of the batch's pixels that are kept.
    """
    pixels = [per_pixel(losses.pixel_cross_entropy(z, masks)) for z in logits]
    count = int(share * len(pixels[0]))
    if count == len(pixels[0]):
        return [loss.mean() for loss in pixels]
    chosen = [smallest(loss.detach(), max(count, 1)) for loss in pixels]
    return [pixels[own][chosen[other]].mean() for own, other in _OTHER]


def distil(strong: Sequence[Tensor], weak: Sequence[Tensor], count: int) -> list[Tensor]:
    """Return each network's divergence from the other on the other's most reliable pixels.

    The less a pixel's logits differ between the two passes, the more reliable it is; ``count``
    pixels of the batch, at least one, are. ``strong`` are both networks' logits of disturbed
    images, ``weak`` those of the plain ones, warped as these are; they teach and get no gradient.
    """
    taught = [z.detach() for z in weak]
    errors = [(s.detach() - z) ** 2 for s, z in zip(strong, taught, strict=True)]
    reliable = [smallest(per_pixel(error), count) for error in errors]
    return [
        per_pixel(losses.bernoulli_kl(taught[other], strong[own]))[reliable[other]].mean()
        for own, other in _OTHER
    ]
