"""Noise for masks as pipelines hold them: arrays or tensors, one or a batch, or in a dictionary.

>>> import numpy as np
>>> from feda3i.noise import ContourEvolution
>>> masks = np.zeros((2, 1, 64, 64), np.float32); masks[..., 16:48, 16:48] = 1
>>> bool(noisy(masks, ContourEvolution(mu=-3, sigma=1), 0).sum() < masks.sum())
True
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from feda3i import seeding
from feda3i.errors import DataError
from feda3i.noise.model import NoiseModel


def noisy(masks: Any, noise: NoiseModel, seed: seeding.Draws, dimensions: int = 2) -> Any:
    """Return masks as another annotator would have drawn them, of the same kind and type.

    ``masks`` is an array or tensor ``(..., *space)`` of whole numbers, also as floats; each mask of
    a batch or channel has draws of its own. ``dimensions`` of the space: 2 for pictures, 3 for
    volumes.
    """
    if hasattr(masks, "detach"):
        import torch

        drawn = noisy(masks.detach().cpu().numpy(), noise, seed, dimensions)
        # A copy of the clone keeps device, type and what MONAI's tensors know of their origin.
        return masks.clone().copy_(torch.from_numpy(drawn))
    if not isinstance(masks, np.ndarray):
        raise DataError(f"expected masks as array or tensor, found {type(masks).__name__}")
    whole = masks if masks.dtype.kind in "biu" else masks.astype(np.int64)
    if not np.array_equal(whole, masks):
        raise DataError("expected masks of whole numbers, found fractions; use (masks > 0.5)")
    rng, changed = seeding.generator(seed), np.empty_like(masks, order="C")
    for place in np.ndindex(masks.shape[:-dimensions]):
        changed[place] = noise(np.ascontiguousarray(whole[place]), rng)
    return changed


class NoisyMaskd:
    """Replace masks in a dictionary, as a step of MONAI's ``Compose`` or of any pipeline.

    ``keys`` are the entries that hold masks, ``case`` the entry that names the case: draws depend
    on ``seed``, key and this name only, so that each case has one noisy mask in all epochs and
    worker processes. Lengths are in pixels of the mask as it is at this place of the pipeline.
    """

    def __init__(
        self,
        keys: str | Sequence[str],
        noise: NoiseModel,
        *,
        case: Hashable,
        seed: int = 0,
        dimensions: int = 2,
    ) -> None:
        self.keys = (keys,) if isinstance(keys, str) else tuple(keys)
        self.noise, self.case, self.seed, self.dimensions = noise, case, seed, dimensions

    def __call__(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the data with noisy masks; the given ones are left alone."""
        changed = dict(data)
        for key in self.keys:
            rng = seeding.rng(self.seed, "noise", key, str(data[self.case]))
            changed[key] = noisy(data[key], self.noise, rng, self.dimensions)
        return changed
