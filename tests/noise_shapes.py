"""Masks for the noise tests: discs, and random blobs of many kinds."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.uint8]


def disc(radius: float, side: int = 256, centre: tuple[float, float] | None = None) -> Mask:
    """Return a disc, by default in the middle of a square frame."""
    row, col = centre or (side // 2, side // 2)
    rows, cols = np.mgrid[:side, :side]
    return ((rows - row) ** 2 + (cols - col) ** 2 <= radius**2).astype(np.uint8)


def blobs(rng: np.random.Generator) -> Mask:
    """Return a random mask: any size and aspect, one or many parts, holes, often at the frame."""
    shape = tuple(int(n) for n in rng.integers(24, 84, 2))
    grain = float(rng.uniform(3.5, 14))
    field = cv2.GaussianBlur(rng.normal(size=shape), (0, 0), grain)
    share = float(rng.uniform(0.5, 0.97))
    mask = (field > np.quantile(field, share)).astype(np.uint8)
    if rng.random() < 0.3:  # grains, one-pixel lines and diagonal joints
        mask ^= (rng.random(shape) < 0.004).astype(np.uint8)
        mask[int(rng.integers(shape[0])), : int(rng.integers(shape[1]))] = 1
    if rng.random() < 0.5:  # keep off the frame
        mask[[0, 1, -1, -2]], mask[:, [0, 1, -1, -2]] = 0, 0
    return mask
