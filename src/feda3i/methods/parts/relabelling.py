"""Relabel doubtful instances with confident predictions (FedCorr).

An instance is a pixel of a class, or a whole case. Masks are booleans ``(case, class, *space)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bools = NDArray[np.bool_]


def highest(losses: NDArray[np.floating[Any]], count: int) -> Bools:
    """Return which entries are the ``count`` highest, same shape.

    >>> highest(np.array([0.3, 0.9, 0.1, 0.5]), 2)
    array([False,  True, False,  True])
    """
    chosen = np.zeros(losses.size, dtype=bool)
    if count > 0:
        chosen[np.argpartition(losses, losses.size - count, axis=None)[-count:]] = True
    return chosen.reshape(losses.shape)


def relabel(
    masks: Tensor, logits: Tensor, chosen: Tensor | None, theta: float, *, by_case: bool = False
) -> Tensor:
    """Return masks in which chosen instances take the network's confident predictions.

    Parameters
    ----------
    masks, logits
        ``(case, class, *space)``, booleans and numbers.
    chosen
        The instances that may change, broadcastable to the masks; all if ``None``.
    theta
        An instance changes if its confidence max(p, 1 - p) exceeds this. Confidence is never below
        one half, so 0.5 changes all and 1 none.
    by_case
        Judge whole cases by their mean confidence instead of single pixels.

    >>> logits = torch.tensor([[[3.0, -3.0, 0.1]]])
    >>> relabel(torch.tensor([[[False, True, False]]]), logits, None, 0.9)
    tensor([[[ True, False, False]]])
    """
    confidence = torch.sigmoid(logits.abs())
    if by_case:
        mean = confidence.flatten(1).mean(1, dtype=torch.float64)
        confidence = mean.reshape(-1, *[1] * (logits.ndim - 1))
    sure = confidence > theta
    if chosen is not None:
        sure = sure & chosen
    return torch.where(sure, torch.sigmoid(logits) > 0.5, masks)
