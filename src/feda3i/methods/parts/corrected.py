"""A site's corrected masks: kept in its memory beside the given ones, which are never changed.

Masks are booleans ``(class, *space)`` of each case, at the case's own size; at rest they are bits,
an eighth of a byte per pixel and class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from feda3i.core.site import Batch, Site

Bools = NDArray[np.bool_]
Bits = NDArray[np.uint8]


def pack_masks(masks: Iterable[Bools]) -> Bits:
    """Return the booleans of each case as bits, ``(case, byte)``.

    Where cases have several sizes, their bytes follow each other: ``(byte,)``.
    """
    rows = [np.packbits(np.reshape(mask, -1)) for mask in masks]
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else np.concatenate(rows)


def unpack_masks(bits: Bits, shape: Sequence[int]) -> Bools:
    """Return what ``pack_masks`` was given; ``shape`` is that of one case.

    >>> unpack_masks(pack_masks(np.array([[True, False, True]])), (3,))
    array([[ True, False,  True]])
    """
    flat = np.unpackbits(bits, axis=1, count=math.prod(shape)).view(np.bool_)
    return flat.reshape(len(bits), *shape)


def unpack_cases(
    bits: Bits, positions: Iterable[int], shapes: Sequence[Sequence[int]]
) -> list[Bools]:
    """Return some cases of what ``pack_masks`` was given; ``shapes`` are those of all cases.

    >>> bits = pack_masks([np.ones(9, bool), np.array([[False, True]])])
    >>> unpack_cases(bits, [1], [(9,), (1, 2)])
    [array([[False,  True]])]
    """
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
    """Return the corrected masks of a batch; the given ones while there are none.

    They are cut out as a batch of patches was, and follow the images of an augmented one.
    """
    if "masks" not in site.memory:
        return batch.masks
    shapes = [(site.classes, *shape) for shape in site.shapes]
    kept = unpack_cases(site.memory["masks"], batch.positions, shapes)
    return batch.follow(batch.cut(kept).to(batch.masks))
