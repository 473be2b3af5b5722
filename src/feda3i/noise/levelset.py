"""Contour evolution for pictures and volumes: shift the border by a smooth random distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError
from feda3i.geometry import Binary, Floats, label_components, signed_distance
from feda3i.noise.model import BorderNoise, Mask, Positive, core_of, noise_by_class
from feda3i.seeding import Draws

Surface = NDArray[np.float32]

SMOOTHNESS = 0.7  # width of the kernel in cells: neighbouring cells blend, distant ones do not
CELLS = 11  # independent values around an object; the contour model fits as many coefficients
FARTHEST = 4.0  # cells beyond which a kernel is taken as zero


@dataclass(frozen=True)
class SignedDistanceEvolution(BorderNoise):
    """C(mu, sigma) in two or three dimensions: ``{u: D(u) <= b(u)}``.

    D is the signed distance to the border of an object and b a smooth Gaussian field with mean mu
    and the spread of the contour model: sigma at the start pixel, sigma / 2 far from it, and 11
    independent values around a circumference. Nothing can cross; holes, several components and the
    frame (which is not a border) need no rule. An object that would vanish leaves its core.

    mu and sigma are in pixels, or in the unit of ``spacing``, the size of a pixel along each axis.

    >>> ball = np.linalg.norm(np.mgrid[:48, :48, :48] - 24.0, axis=0) <= 14
    >>> noisy = SignedDistanceEvolution(4.0, 0.0)(ball, np.random.default_rng(0))
    >>> round(14 * float(noisy.sum() / ball.sum()) ** (1 / 3))
    18
    """

    spacing: tuple[Positive, ...] | None = None

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a 2-D or 3-D mask or label map."""
        return noise_by_class(mask, rng, self._change, is_nested=True)

    def for_spacing(self, spacing: Sequence[float]) -> SignedDistanceEvolution:
        """Return the same noise for pixels of this size, unless it has one."""
        return self if self.spacing is not None else replace(self, spacing=tuple(spacing))

    def _change(self, mask: Binary, rng: np.random.Generator) -> Binary:
        if self.spacing is not None and len(self.spacing) != mask.ndim:
            raise DataError(
                f"expected a mask with {len(self.spacing)} dimensions, one per pixel size, found "
                f"shape {mask.shape}"
            )
        if mask.all():
            return mask.copy()
        from scipy import ndimage

        noisy = np.zeros_like(mask)
        labels, count = label_components(mask)
        sizes = np.array(self.spacing or (1.0,) * mask.ndim)
        margin = np.ceil(self.clip / sizes).astype(int) + 1
        for label, tight in enumerate(ndimage.find_objects(labels, count), 1):
            box = tuple(
                slice(max(side.start - room, 0), side.stop + room)
                for side, room in zip(tight, margin, strict=True)
            )
            noisy[box] |= self._shift_border((labels[box] == label).view(np.uint8), sizes, rng)
        return noisy

    def _shift_border(self, component: Binary, sizes: Floats, rng: np.random.Generator) -> Binary:
        distance = signed_distance(component, self.spacing)
        if np.isinf(distance[(0,) * distance.ndim]):  # the component fills its box: no border
            return component.copy()
        border = np.argwhere((distance < 0) & (distance >= -sizes.max()))
        start = border[int(rng.integers(len(border)))]
        cell = 2.0 * math.pi * _radius(component.sum() * sizes.prod(), component.ndim) / CELLS
        cell = max(cell, 1.5 * sizes.max())
        axes = [np.arange(n) * size for n, size in zip(component.shape, sizes, strict=True)]
        field = smooth_field(axes, cell, rng)
        spread = 0.5 * self.sigma * (1.0 + _bump(axes, start * sizes, cell))
        bias = np.clip(self.mu + spread * field, -self.clip, self.clip)
        noisy = (distance <= bias).view(np.uint8)
        return noisy if noisy.any() else core_of(component, self.spacing)


def _radius(volume: float, dimensions: int) -> float:
    unit = math.pi ** (dimensions / 2) / math.gamma(dimensions / 2 + 1)
    return float((volume / unit) ** (1 / dimensions))


def _bump(axes: list[Floats], centre: Floats, width: float) -> Surface:
    """Return a Gaussian hill of height 1 on the grid of these axes."""
    away = [(axis - middle) / width for axis, middle in zip(axes, centre, strict=True)]
    along = [np.exp(-0.5 * one**2).astype(np.float32) for one in away]
    return np.asarray(reduce(np.multiply.outer, along))


def smooth_field(axes: list[Floats], cell: float, rng: np.random.Generator) -> Surface:
    """Draw a smooth field with Normal(0, 1) values at every point of the grid of these axes.

    Normal values on a lattice with distance ``cell``, blended by weights whose squares sum to one.
    """
    weights = []
    for axis in axes:
        first = axis[0] - FARTHEST * cell * SMOOTHNESS
        count = math.ceil((axis[-1] - axis[0]) / cell + 2 * FARTHEST * SMOOTHNESS) + 1
        lattice = first + cell * np.arange(count)
        near = np.exp(-0.5 * ((axis[:, None] - lattice) / (cell * SMOOTHNESS)) ** 2)
        weights.append(near / np.linalg.norm(near, axis=1, keepdims=True))
    field = rng.standard_normal([w.shape[1] for w in weights])
    for weight in weights:
        # Contracts the first axis and appends the fine one, so after all axes the order is right.
        field = np.tensordot(field, weight, axes=(0, 1))
    return field.astype(np.float32)
