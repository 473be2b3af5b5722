"""Random flips and warps of batches, drawn once and applied to images and logits alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

DEGREES, ZOOM = (0.0, 60.0), (1.0, 2.0)
"""Limits of the rotation and of the magnification, drawn uniformly."""


@dataclass(frozen=True)
class Warp:
    """A change of geometry: mirror some axes of space, then sample at displaced places.

    >>> x = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> Warp(flips=(1,))(x).flatten().tolist()
    [1.0, 0.0, 3.0, 2.0]
    """

    flips: tuple[int, ...] = ()
    """Axes of space to mirror, counted from 0. Flips alone are exact and undo themselves."""
    places: Tensor | None = None
    """``(height, width, 2)`` where each pixel is taken from, (x, y) within [-1, 1] from the first
    to the last pixel; beyond the frame the border is repeated. ``None`` leaves pixels in place."""

    def __call__(self, batch: Tensor) -> Tensor:
        """Return ``(case, channel, *space)`` warped, the same for every case and channel."""
        if self.flips:
            batch = batch.flip([axis + 2 for axis in self.flips])
        if self.places is None:
            return batch
        grid = self.places.to(batch).expand(len(batch), *self.places.shape)
        return functional.grid_sample(
            batch, grid, mode="bilinear", padding_mode="border", align_corners=True
        )


@dataclass(frozen=True)
class Warps:
    """One warp per case of a batch.

    >>> x = torch.arange(4.0).reshape(2, 1, 1, 2)
    >>> Warps((Warp(), Warp(flips=(1,))))(x).flatten().tolist()
    [0.0, 1.0, 3.0, 2.0]
    """

    each: tuple[Warp, ...]

    def __call__(self, batch: Tensor) -> Tensor:
        """Return ``(case, channel, *space)``, each case warped in its own way, channels alike."""
        rows = zip(self.each, batch, strict=True)
        return torch.cat([warp(case[None]) for warp, case in rows])


def draw_flips(rng: np.random.Generator, dimensions: int) -> tuple[int, ...]:
    """Draw which axes to mirror; all subsets are equally likely, the empty one included."""
    return tuple(axis for axis in range(dimensions) if rng.random() < 0.5)


def rotation_and_zoom(shape: Sequence[int], degrees: float, zoom: float) -> Tensor:
    """Return the places of a rotation about the middle with magnification, ``(height, width, 2)``.

    >>> torch.equal(rotation_and_zoom((2, 2), 0, 1)[0, 1], torch.tensor([1.0, -1.0]))
    True
    """
    height, width = shape
    # In pixels, so that a frame that is not square is not sheared.
    half = torch.tensor([(width - 1) / 2, (height - 1) / 2])
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, height) * half[1],
        torch.linspace(-1, 1, width) * half[0],
        indexing="ij",
    )
    cos, sin = (f(math.radians(degrees)) / zoom for f in (math.cos, math.sin))
    return torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1) / half


def draw_deformation(rng: np.random.Generator, shape: Sequence[int]) -> Tensor:
    """Draw a rotation and a zoom."""
    return rotation_and_zoom(shape, float(rng.uniform(*DEGREES)), float(rng.uniform(*ZOOM)))
