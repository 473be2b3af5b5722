"""Augmentation: change the finished batches of a training, images and masks alike.

Flips, rotation, zoom and elastic deformation are one grid of places per case, sampled once, so that
nothing is interpolated twice; then blur, noise, brightness, contrast and gamma, each in a part of
the cases. A preset says how much of each. Surveys and scores see the cases as they are.

Written here because every draw comes from the generator of site, round and epoch: MONAI works case
by case, kornia and torchvision draw from torch's global one (``benchmarks/bench_augment.py``).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from feda3i.core.messages import Floats

NODES = 5  # control points of the elastic deformation along each axis


@dataclass(frozen=True)
class Preset:
    """How much of each change; draws are uniform within these limits unless said otherwise."""

    flips: tuple[int, ...] = ()
    """Axes of space that may be mirrored, counted from the last (-1), each in half of the cases."""
    rotation: float = 0.0  # degrees to both sides; in three dimensions about each axis
    zoom: tuple[float, float] = (1.0, 1.0)  # of the magnification, on a logarithmic scale
    elastic: float = 0.0
    """Standard deviation of the displacement of control points, as a share of the shortest side."""
    beyond: Literal["reflection", "border"] = "reflection"
    """What lies outside the frame: its mirror image, or its border continued."""
    brightness: float = 0.0  # largest shift, as a share of the case's range of values
    contrast: tuple[float, float] = (1.0, 1.0)  # factor about the mean, on a logarithmic scale
    gamma: tuple[float, float] = (1.0, 1.0)  # exponent, on a logarithmic scale
    noise: float = 0.0  # largest standard deviation, as a share of the case's range of values
    blur: float = 0.0  # largest standard deviation in pixels, at most 1.5
    part: float = 0.3  # of the cases that each of elastic, blur, noise and gamma changes


_SCANNED = Preset(elastic=0.02, brightness=0.1, contrast=(0.75, 1.33), gamma=(0.7, 1.5), noise=0.05)
PRESETS: Mapping[str, Preset] = {
    # A lesion has no up and down, and lamps, lenses and skin differ.
    "dermoscopy": Preset(
        flips=(-1, -2),
        rotation=180.0,
        zoom=(0.8, 1.25),
        elastic=0.02,
        brightness=0.1,
        contrast=(0.8, 1.25),
        gamma=(0.7, 1.4),
        noise=0.03,
        blur=0.8,
    ),
    # The probe is at the top, so never upside down; gain differs, and speckle is the texture.
    "ultrasound": replace(_SCANNED, flips=(-1,), rotation=10.0, zoom=(0.85, 1.2), blur=0.8),
    # Axes of a volume have a meaning and organs have sides, so no flips; scales differ by scanner.
    "mri": replace(_SCANNED, rotation=15.0, zoom=(0.85, 1.18), beyond="border", blur=0.7),
}


@dataclass(frozen=True)
class Places:
    """Where each pixel of a batch is taken from: one grid per case, as ``grid_sample`` reads it."""

    grid: Tensor
    beyond: str

    def __call__(self, values: Tensor, *, smooth: bool) -> Tensor:
        """Return ``(case, channel, *space)`` taken from there, between pixels or from the nearest.

        The nearest keeps masks at 0 and 1 and every class where its pixels went.
        """
        mode, grid = "bilinear" if smooth else "nearest", self.grid.to(values)
        return functional.grid_sample(
            values, grid, mode=mode, padding_mode=self.beyond, align_corners=True
        )


def draw_places(
    preset: Preset, draw: np.random.Generator, like: Tensor, voxels: Floats | None = None
) -> Places | None:
    """Draw where the pixels of a batch are taken from; ``None`` if the preset moves none.

    ``like`` are the images, ``(case, channel, *space)``, and ``voxels`` the ``(case, dimension)``
    relative sizes of their voxels; ``None`` where sides are equal.
    """
    cases, shape = len(like), tuple(like.shape[2:])
    sides = len(shape)
    if not (preset.flips or preset.rotation or preset.elastic or preset.zoom != (1.0, 1.0)):
        return None
    half = np.array([max(side - 1, 1) / 2 for side in shape[::-1]])  # grid_sample wants x first
    units = half if voxels is None else half * voxels[:, ::-1]
    units = np.broadcast_to(units, (cases, sides))
    matrix = _rotations(preset.rotation, draw, cases, sides) / _between(preset.zoom, draw, cases)
    signs = np.ones((cases, sides))
    for axis in preset.flips:
        signs[:, -1 - axis] = np.where(draw.random(cases) < 0.5, -1.0, 1.0)
    matrix = matrix * signs[:, None, :] * units[:, None, :] / units[:, :, None]
    theta = np.concatenate([matrix, np.zeros((cases, sides, 1))], axis=2)
    size = [cases, 1, *shape]
    grid = functional.affine_grid(torch.from_numpy(theta).to(like), size, align_corners=True)
    bent = _chosen(preset.part, draw, cases) if preset.elastic else None
    if bent is not None:
        sigma = preset.elastic * min(shape) / half
        control = draw.standard_normal((cases, sides, *[NODES] * sides))
        control *= bent.reshape(-1, *[1] * (sides + 1))
        control *= sigma.reshape(1, -1, *[1] * sides)
        nodes, mode = torch.from_numpy(control).to(like), "bicubic" if sides == 2 else "trilinear"
        moved = functional.interpolate(nodes, shape, mode=mode, align_corners=True)
        grid = grid + moved.movedim(1, -1)
    return Places(grid, preset.beyond)


def change_values(preset: Preset, draw: np.random.Generator, images: Tensor) -> Tensor:
    """Return images with other intensities; each case stays within its own range of values.

    Shares are of that range, so that bytes, Hounsfield units and normalised values are alike.
    """
    cases = len(images)
    ones = [1] * (images.ndim - 1)
    flat = images.flatten(1) if images.is_contiguous() else images.reshape(cases, -1)
    low, high = (part.reshape(-1, *ones) for part in torch.aminmax(flat, dim=1))
    span = high - low

    def per_case(values: Any) -> Tensor:
        return torch.as_tensor(np.asarray(values)).to(images).reshape(-1, *ones)

    images = _blurred(preset, draw, images)
    noisy = _chosen(preset.part, draw, cases) if preset.noise else np.zeros(cases)
    sigma = preset.noise * draw.random(cases) * noisy
    for case in np.flatnonzero(sigma):
        grain = draw.standard_normal(tuple(images.shape[1:]), dtype=np.float32)
        images[case].add_(torch.from_numpy(grain).to(images) * span[case], alpha=sigma[case])
    factor = per_case(_between(preset.contrast, draw, cases))
    shift = per_case(preset.brightness * draw.uniform(-1, 1, cases)) * span
    mean = flat.mean(1).reshape(-1, *ones)
    images = torch.addcmul(mean * (1 - factor) + shift, images, factor)
    images = torch.minimum(torch.maximum(images, low), high)
    curved = _chosen(preset.part, draw, cases) if preset.gamma != (1.0, 1.0) else np.zeros(cases)
    power = _between(preset.gamma, draw, cases).reshape(-1)
    for case in np.flatnonzero(curved):
        if span[case] > 0:
            share = (images[case] - low[case]) / span[case]
            images[case] = share.pow(float(power[case])) * span[case] + low[case]
    return images


def _blurred(preset: Preset, draw: np.random.Generator, images: Tensor) -> Tensor:
    """Return a copy; some cases are blurred by [1 2 1] / 4 and by the same with gaps.

    A pass at full strength has variance 1/2, with gaps 2; a share of a pass has that share of it.
    """
    images = images.clone()
    if not preset.blur:
        return images
    cases = len(images)
    variance = (preset.blur * draw.random(cases)) ** 2 * _chosen(preset.part, draw, cases)
    for case in np.flatnonzero(variance):
        for gap, most in ((1, 0.5), (2, 2.0)):
            strength = min(max(variance[case] - (gap - 1) * 0.5, 0.0) / most, 1.0)
            if strength > 0:
                images[case] = _smooth(images[case], gap, float(strength))
    return images


def _smooth(image: Tensor, gap: int, strength: float) -> Tensor:
    for axis in range(1, image.ndim):
        if image.shape[axis] <= gap:
            continue
        last = image.shape[axis] - 1
        steps = torch.arange(image.shape[axis], device=image.device)
        around = image.index_select(axis, (steps - gap).clamp(min=0))
        around = around + image.index_select(axis, (steps + gap).clamp(max=last))
        image = torch.lerp(image, around / 2, strength / 2)
    return image


def _rotations(degrees: float, draw: np.random.Generator, cases: int, sides: int) -> Floats:
    """Draw rotation matrices ``(case, side, side)`` in the plane, or about every axis of space."""
    planes = [(0, 1)] if sides == 2 else [(0, 1), (0, 2), (1, 2)]
    matrix = np.broadcast_to(np.eye(sides), (cases, sides, sides))
    for a, b in planes:
        angle = np.radians(draw.uniform(-degrees, degrees, cases))
        turn = np.broadcast_to(np.eye(sides), (cases, sides, sides)).copy()
        turn[:, a, a] = turn[:, b, b] = np.cos(angle)
        turn[:, a, b], turn[:, b, a] = -np.sin(angle), np.sin(angle)
        matrix = matrix @ turn
    return matrix


def _between(limits: tuple[float, float], draw: np.random.Generator, cases: int) -> Floats:
    """Draw factors ``(case, 1, 1)``, uniform on a logarithmic scale."""
    low, high = (math.log(limit) for limit in limits)
    return np.exp(draw.uniform(low, high, cases)).reshape(-1, 1, 1)


def _chosen(part: float, draw: np.random.Generator, cases: int) -> Floats:
    """Draw which cases are changed: 1 or 0."""
    return (draw.random(cases) < part).astype(np.float64)
