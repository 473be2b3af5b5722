"""Find images that show the same thing: a hash to find candidates, a correlation to confirm them.

The limits were set by looking at the pairs that they bring up in ISIC 2017, BUSI and BUS-BRA: above
them all pairs were the same lesion (other colours, another frame), below them the first strangers.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Images

_BITS = 64
_MAX_DISTANCE = 10  # bits that may differ
_MIN_CORRELATION = 0.96  # of the two thumbnails
_SIDE = 32
_ROWS = 1024  # rows of the distance matrix held at a time


@dataclass(frozen=True)
class Fingerprint:
    """What is kept of an image: 64 bits and a thumbnail with mean 0 and length 1."""

    bits: NDArray[np.float32]
    thumbnail: NDArray[np.float32]


def fingerprint(image: Images) -> Fingerprint:
    """Return the fingerprint of an image ``(*space, channel)``; of volumes the middle slice's.

    The bits say which of the 64 lowest frequencies of the thumbnail (the mean left out) are above
    their median.
    """
    plane = image if image.ndim == 3 else image[len(image) // 2]
    grey = plane.mean(axis=-1, dtype=np.float32)
    small = cv2.resize(grey, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
    low = cv2.dct(small)[:9, :9].ravel()[1 : _BITS + 1]
    centred = small - small.mean()
    length = float(np.linalg.norm(centred))
    return Fingerprint(
        (low > np.median(low)).astype(np.float32),
        (centred / length if length > 0 else centred).ravel().astype(np.float32),
    )


def find_duplicates(prints: list[Fingerprint]) -> list[tuple[int, int]]:
    """Return the pairs of positions that look alike, each once, the smaller position first."""
    if not prints:
        return []
    bits = np.stack([p.bits for p in prints])
    ones = bits.sum(axis=1)
    pairs: list[tuple[int, int]] = []
    for start in range(0, len(prints), _ROWS):
        rows = slice(start, start + _ROWS)
        # Hamming distance of 0/1 vectors: |a| + |b| - 2 a.b
        distance = ones[rows, None] + ones[None, :] - 2 * (bits[rows] @ bits.T)
        first, second = np.nonzero(distance <= _MAX_DISTANCE)
        for i, j in zip((first + start).tolist(), second.tolist(), strict=True):
            if i < j and prints[i].thumbnail @ prints[j].thumbnail >= _MIN_CORRELATION:
                pairs.append((i, j))
    return pairs
