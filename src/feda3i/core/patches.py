"""Patches of large cases: where they are drawn in training, and how a whole case is predicted.

Prediction slides a window over the case and blends what overlaps, as MONAI's
``sliding_window_inference`` does, to which the tests compare it; MONAI is an extra here.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Box = tuple[slice, ...]
PLACES = 4096
"""Foreground voxels of a class that are remembered to draw from; a larger object is thinned out."""
SIGMA = 0.125  # width of the Gaussian weight of a window, as a share of its side
WINDOWS = 4  # windows that go through the network together
_FAINTEST = 1e-3  # smallest weight in a window: the corners count a little, too


def foreground_places(mask: NDArray[np.uint8], classes: int) -> list[NDArray[np.int64]]:
    """Return the flat places of each class that a mask holds, evenly thinned out."""
    flat = mask.reshape(-1)
    found = []
    for k in range(1, classes + 1):
        places = np.flatnonzero(flat == k)
        if len(places) > PLACES:
            places = places[np.linspace(0, len(places) - 1, PLACES).astype(np.int64)]
        if len(places):
            found.append(places)
    return found


def draw_corner(
    shape: Sequence[int],
    patch: Sequence[int],
    places: Sequence[NDArray[np.int64]],
    foreground: float,
    rng: np.random.Generator,
) -> tuple[int, ...]:
    """Return where a patch begins along each side.

    With probability ``foreground`` (and if there is any) the patch is centred on a voxel of the
    mask, all classes alike; else every place is as likely. A case smaller than the patch lies in
    its middle, and the corner is negative.
    """
    room = [side - p for side, p in zip(shape, patch, strict=True)]
    wanted, choice, place = rng.random(), rng.random(), rng.random()
    free = rng.random(len(room))  # as many draws whatever the case: the next does not depend on it
    if places and wanted < foreground:
        voxels = places[min(int(choice * len(places)), len(places) - 1)]
        centre = np.unravel_index(voxels[int(place * len(voxels))], tuple(shape))
        first = [int(c) - p // 2 for c, p in zip(centre, patch, strict=True)]
    else:
        first = [int(f * (r + 1)) if r > 0 else 0 for f, r in zip(free.tolist(), room, strict=True)]
    return tuple(
        -(-r // 2) if r < 0 else min(max(c, 0), r) for c, r in zip(first, room, strict=True)
    )


def cut_out(
    values: NDArray[Any], corner: Sequence[int], patch: Sequence[int], fill: Any = 0
) -> NDArray[Any]:
    """Return the patch of ``(*space, ...)`` at a corner; what lies outside the case is filled.

    >>> cut_out(np.arange(3), (-1,), (5,)).tolist()
    [0, 0, 1, 2, 0]
    """
    of_case, of_patch = shared_boxes(values.shape[: len(patch)], corner, patch)
    found = values[of_case]
    if found.shape[: len(patch)] == tuple(patch):
        return found
    out = np.empty((*patch, *values.shape[len(patch) :]), values.dtype)
    out[...] = fill
    out[of_patch] = found
    return out


def shared_boxes(
    shape: Sequence[int], corner: Sequence[int], patch: Sequence[int]
) -> tuple[Box, Box]:
    """Return what a case and a patch at a corner share, as a box of the case and of the patch.

    >>> shared_boxes((3,), (-1,), (5,))
    ((slice(0, 3, None),), (slice(1, 4, None),))
    """
    of_case = tuple(
        slice(max(c, 0), min(c + p, n)) for c, p, n in zip(corner, patch, shape, strict=True)
    )
    shifted = (slice(b.start - c, b.stop - c) for b, c in zip(of_case, corner, strict=True))
    return of_case, tuple(shifted)


def window_starts(shape: Sequence[int], patch: Sequence[int], overlap: float) -> list[list[int]]:
    """Return the starts of windows along each side; the last one ends where the case does.

    >>> window_starts((10,), (4,), 0.5)
    [[0, 2, 4, 6]]
    """
    starts = []
    for side, width in zip(shape, patch, strict=True):
        step = max(1, int(width * (1 - overlap))) if side != width else width
        count = max(0, math.ceil((side - width) / step)) + 1
        starts.append([min(k * step, side - width) for k in range(count)])
    return starts


@lru_cache(maxsize=8)
def window_weight(patch: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a Gaussian hill over a window: its middle knows more than its border."""
    hill = np.ones(())
    for width in patch:
        away = (np.arange(width) - (width - 1) / 2) / (SIGMA * width)
        hill = np.multiply.outer(hill, np.exp(-0.5 * away**2))
    return torch.from_numpy(np.maximum(hill, _FAINTEST)).to(dtype)


def slide(
    image: Tensor,
    patch: Sequence[int],
    forward: Callable[[Tensor], Tensor],
    fill: Tensor,
    overlap: float = 0.5,
) -> Tensor:
    """Return the logits ``(class, *space)`` of one image ``(channel, *space)`` of any size.

    ``forward`` makes logits of windows ``(window, channel, *patch)``; each covers the share
    ``overlap`` of the one before. ``fill`` is, by channel, what surrounds a smaller case.
    """
    space = tuple(image.shape[1:])
    size = tuple(max(n, p) for n, p in zip(space, patch, strict=True))
    before = tuple((n - s) // 2 for n, s in zip(size, space, strict=True))
    inner = tuple(slice(b, b + s) for b, s in zip(before, space, strict=True))
    if size != space:
        wide = fill.to(image).reshape(-1, *[1] * len(space)).expand(-1, *size).clone()
        wide[(slice(None), *inner)] = image
        image = wide
    corners = list(itertools.product(*window_starts(size, patch, overlap)))
    boxes = [tuple(slice(c, c + p) for c, p in zip(at, patch, strict=True)) for at in corners]
    if len(boxes) == 1:
        return forward(image[None])[0][(slice(None), *inner)]
    weight = window_weight(tuple(patch), image.dtype).to(image.device)
    total, weights = None, torch.zeros(size, dtype=image.dtype, device=image.device)
    for start in range(0, len(boxes), WINDOWS):
        some = boxes[start : start + WINDOWS]
        found = forward(torch.stack([image[(slice(None), *box)] for box in some]))
        if total is None:
            total = torch.zeros((found.shape[1], *size), dtype=image.dtype, device=image.device)
        for box, one in zip(some, found, strict=True):
            total[(slice(None), *box)] += one * weight
            weights[box] += weight
    assert total is not None  # there is always a window
    return (total / weights)[(slice(None), *inner)]
