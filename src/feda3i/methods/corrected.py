"""A site's corrected masks: bits in its memory, beside the given ones, which are never changed."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from feda3i.core.site import Batch, Site

Bools = NDArray[np.bool_]
Bits = NDArray[np.uint8]


def pack_masks(masks: Iterable[Bools]) -> Bits:
    """Return booleans by case as bits, ``(case, byte)``; ``(byte,)`` where sizes differ."""
    rows = [np.packbits(np.reshape(mask, -1)) for mask in masks]
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else np.concatenate(rows)


def unpack_cases(
    bits: Bits, positions: Iterable[int], shapes: Sequence[Sequence[int]]
) -> list[Bools]:
    """Return some cases of what ``pack_masks`` was given; ``shapes`` are those of all cases."""
    sizes = np.array([-(-math.prod(shape) // 8) for shape in shapes])
    starts = np.cumsum(sizes) - sizes
    flat, found = bits.reshape(-1), []
    for k in positions:
        row = flat[starts[k] : starts[k] + sizes[k]]
        whole = np.unpackbits(row, count=math.prod(shapes[k])).view(np.bool_)
        found.append(whole.reshape(tuple(shapes[k])))
    return found


def remember_masks(site: Site, parts: Sequence[Tensor]) -> None:
    """Keep corrected masks; ``parts`` are those of consecutive cases, together all of the site."""
    site.memory["masks"] = pack_masks(case for part in parts for case in part.cpu().numpy())


def current_masks(site: Site, batch: Batch) -> Tensor:
    """Return the corrected masks of a batch, cut out and moved as it is; given ones before."""
    if "masks" not in site.memory:
        return batch.masks
    shapes = [(site.classes, *shape) for shape in site.shapes]
    kept = unpack_cases(site.memory["masks"], batch.positions, shapes)
    return batch.follow(batch.cut(kept).to(batch.masks))


def highest(losses: NDArray[np.floating[Any]], count: int) -> Bools:
    """Return which entries are the ``count`` highest, same shape."""
    chosen = np.zeros(losses.size, dtype=bool)
    if count > 0:
        chosen[np.argpartition(losses, losses.size - count, axis=None)[-count:]] = True
    return chosen.reshape(losses.shape)


def relabel(masks: Tensor, logits: Tensor, chosen: Tensor | None, theta: float) -> Tensor:
    """Return masks in which chosen instances take the network's confident predictions.

    Masks, logits and what may change, all if ``None``, are ``(case, class, *space)``. A pixel
    changes if its confidence max(p, 1 - p) exceeds theta: 0.5 changes all and 1 none.
    """
    sure = torch.sigmoid(logits.abs()) > theta
    if chosen is not None:
        sure = sure & chosen
    return torch.where(sure, torch.sigmoid(logits) > 0.5, masks)
