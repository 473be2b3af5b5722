"""Losses on logits: every value and gradient is finite for every finite logit.

Shapes: ``logits`` and ``targets`` are ``(case, class, *space)``; a class is one sigmoid of its own
(one against the rest), so that everything said for one foreground class holds for several.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over all pixels of the binary cross-entropy.

    >>> round(float(cross_entropy(torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2))), 6)
    0.693147
    """
    return functional.binary_cross_entropy_with_logits(logits, targets)


def pixel_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the binary cross-entropy of every pixel, same shape as the logits."""
    return functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")


def soft_dice(logits: Tensor, targets: Tensor, smooth: float = 1.0, eps: float = 1e-8) -> Tensor:
    """Return 1 - soft Dice per case and class, averaged over the batch (METHODS.md 1.4)."""
    p = torch.sigmoid(logits).flatten(2)
    y = targets.flatten(2)
    overlap = (p * y).sum(-1)
    return (1 - (2 * overlap + smooth) / (p.sum(-1) + y.sum(-1) + smooth + eps)).mean()


def cross_entropy_and_dice(logits: Tensor, targets: Tensor, weight: float = 0.5) -> Tensor:
    """Return ``weight * CE + (1 - weight) * soft Dice``: the Dice-involved ("DC") loss."""
    return weight * cross_entropy(logits, targets) + (1 - weight) * soft_dice(logits, targets)
