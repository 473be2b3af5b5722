"""The record of a contour evolution: for plots, tests and anyone who wants to see what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from feda3i.geometry import Floats, Points
from feda3i.noise.model import Mask

Fate = Literal["moved", "unchanged", "grown", "core", "lost", "closed", "kept"]


@dataclass(frozen=True)
class ContourPart:
    """What happened to one contour."""

    contour: Points  # ``(l, 2)`` clean contour, (row, column), from the start pixel on
    bias: Floats  # ``(l,)`` pixels, positive where the object grows
    moved: Points  # ``(l, 2)`` where the contour pixels went
    dropped: NDArray[np.bool_]
    """``(l,)`` contour pixels left out of the new outline (faithful mode only)."""
    tries: int  # how many times the bias was drawn
    fate: Fate
    """``moved``; ``unchanged`` (all biases 0); ``grown`` (too short for a polynomial: one bias for
    all pixels); ``core`` (shrunk away, its innermost pixels kept); ``lost`` (nothing left);
    ``closed`` (a hole that vanished); ``kept`` (a hole too small to have been drawn)."""
    is_hole: bool = False  # whether the contour is the border of a hole


@dataclass(frozen=True)
class Evolution:
    """A noisy mask and the record of each contour that made it."""

    mask: Mask
    parts: tuple[ContourPart, ...]
