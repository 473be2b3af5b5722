"""A site's corrected masks: kept in its memory beside the given ones, which are never changed.

Masks are booleans ``(case, class, *space)``; at rest they are bits, an eighth of a byte per pixel
and class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from feda3i.core.site import Batch, Site

Bools = NDArray[np.bool_]
Bits = NDArray[np.uint8]


def pack_masks(masks: Bools) -> Bits:
    """Return booleans ``(case, ...)`` as bits, ``(case, byte)``."""
    return np.packbits(masks.reshape(len(masks), -1), axis=1)


def unpack_masks(bits: Bits, shape: Sequence[int]) -> Bools:
    """Return what ``pack_masks`` was given; ``shape`` is that of one case.

    >>> unpack_masks(pack_masks(np.array([[True, False, True]])), (3,))
    array([[ True, False,  True]])
    """
    flat = np.unpackbits(bits, axis=1, count=math.prod(shape)).view(np.bool_)
    return flat.reshape(len(bits), *shape)


def remember_masks(site: Site, parts: Sequence[Tensor]) -> None:
    """Keep corrected masks; ``parts`` are those of consecutive cases, together all of the site."""
    site.memory["masks"] = np.concatenate([pack_masks(part.cpu().numpy()) for part in parts])


def current_masks(site: Site, batch: Batch) -> Tensor:
    """Return the corrected masks of a batch; the given ones while there are none.

    They follow the images of an augmented batch.
    """
    if "masks" not in site.memory:
        return batch.masks
    bits = site.memory["masks"][batch.positions]
    masks = torch.from_numpy(unpack_masks(bits, (site.classes, *site.shape))).to(batch.masks)
    return batch.follow(masks)
