"""What another network says of all that a site trains on in a round, asked before the training."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from feda3i.core.site import Batch, Site


def foresee(site: Site, look: Callable[[Batch, Tensor], Tensor]) -> NDArray[Any]:
    """Return ``(epoch, case, ...)`` what ``look`` makes of batches; one epoch for whole cases."""
    parts = [look(batch, logits).cpu().numpy() for batch, logits in site.predict_epochs()]
    found = np.concatenate(parts)
    return found.reshape(-1, len(site), *found.shape[1:])


def foreseen(kept: NDArray[Any], batch: Batch) -> Tensor:
    """Return the part of ``foresee`` that belongs to a batch of the training, on its device."""
    epoch = batch.epoch if len(kept) > 1 else 0
    return torch.from_numpy(kept[epoch][batch.positions]).to(batch.images.device)
