"""One mask of several annotators: the majority, or STAPLE (Warfield 2004)."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Masks
from feda3i.geometry import FARTHEST, box_around, signed_distance
from feda3i.reading.volume import simpleitk

Consensus = Literal["majority", "staple"]
_STEPS = 100  # of STAPLE at most
_MARGIN = 10  # pixels around all that was drawn: in a large empty frame STAPLE favours background
_FEWEST = 3  # annotators that STAPLE can tell apart


def consensus_of(masks: Sequence[Masks], how: Consensus) -> Masks:
    """Return the consensus of masks with values 0..C; with fewer than three, the majority."""
    drawn = np.maximum.reduce(list(masks))
    if not drawn.any() or len(masks) == 1:
        return masks[0]
    box = box_around(drawn > 0, _MARGIN)
    parts = [np.ascontiguousarray(mask[box]) for mask in masks]
    made = np.zeros_like(masks[0])
    is_staple = how == "staple" and len(masks) >= _FEWEST
    made[box] = _staple(parts) if is_staple else _majority(parts)
    return made


def _majority(masks: Sequence[Masks]) -> NDArray[np.uint8]:
    """Return the value that most chose; where votes tie, the mean contour decides."""
    scores = []
    for value in range(int(max(mask.max() for mask in masks)) + 1):
        votes = np.sum([mask == value for mask in masks], axis=0)
        far = [np.clip(signed_distance(mask == value), -FARTHEST, FARTHEST) for mask in masks]
        depth = -np.sum(far, axis=0, dtype=np.float64)
        scores.append(votes + 0.5 * depth / (1 + np.abs(depth)))
    return np.asarray(np.argmax(scores, axis=0), np.uint8)


def _staple(masks: Sequence[Masks]) -> NDArray[np.uint8]:
    sitk = simpleitk()
    images = [sitk.GetImageFromArray(mask) for mask in masks]
    if max(int(mask.max()) for mask in masks) == 1:
        share = sitk.STAPLE(images, 1.0, 1.0, _STEPS)  # weight, foreground
        return np.asarray(sitk.GetArrayFromImage(share) > 0.5, np.uint8)
    found = sitk.MultiLabelSTAPLE(images, 0, 1e-5, _STEPS)  # undecided, least update
    return np.asarray(sitk.GetArrayFromImage(found), np.uint8)
