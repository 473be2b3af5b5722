"""The noise models that the paper compares with: CCN, MON and MLN."""

import math
import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import cv2
import numpy as np
from pydantic import Field

from feda3i.errors import RecipeError
from feda3i.geometry import Binary, signed_distance
from feda3i.noise.model import (
    Annotator,
    Mask,
    NoiseOptions,
    NoiseWarning,
    NotNegative,
    Rate,
    noise_by_class,
)
from feda3i.seeding import Draws, generator

# An annotator who is off by this many pixels (at 256) flips every pixel of one class.
PIXELS_OF_RATE_ONE = 100.0
# A front that flips rim pixels at random advances about this many times theta2 per step, since a
# rough rim has more pixels than a smooth one: 11.8 px in 200 steps at theta1 .8, theta2 .05.
ADVANCE = 1.97
MOST_STEPS = 1_000_000
CROSS = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))  # a pixel and its four neighbours
BLOCK = 16  # steps after which the examined part of the frame is chosen again


@dataclass(frozen=True)
class ClassConditional(NoiseOptions):
    """Flip background pixels with rate ``rho_01`` and foreground pixels with rate ``rho_10``.

    Near and far from the contour alike; a mask without foreground stays empty. An annotator's rate
    is |mu| / 100 (at 256) on background pixels if mu is positive, on foreground pixels if negative;
    sigma / 200 is added to both. So mu = 20 gives the customary 0.2. Rates end at 0.5.

    >>> mask = np.zeros((4, 4), np.uint8); mask[1:3, 1:3] = 1
    >>> bool((ClassConditional(1.0, 1.0)(mask, np.random.default_rng(0)) == 1 - mask).all())
    True
    """

    rho_01: Rate = 0.2
    rho_10: Rate = 0.2

    @classmethod
    def fields_of(cls, annotator: Annotator) -> dict[str, float]:
        """Return the rates that stand for an annotator."""
        mu, sigma = annotator.mu / annotator.scale, annotator.sigma / annotator.scale
        both = 0.5 * sigma / PIXELS_OF_RATE_ONE
        grow, shrink = (max(by, 0.0) / PIXELS_OF_RATE_ONE for by in (mu, -mu))
        return {"rho_01": min(0.5, grow + both), "rho_10": min(0.5, shrink + both)}

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a 2-D or 3-D mask or label map."""
        return noise_by_class(mask, rng, self._change)

    def _change(self, mask: Binary, rng: np.random.Generator) -> Binary:
        rate = np.where(mask, self.rho_10, self.rho_01)
        return mask ^ (rng.random(mask.shape) < rate).view(np.uint8)


@dataclass(frozen=True)
class MorphologicalNoise(NoiseOptions):
    """Dilate with probability ``p_dilate``, else erode: one coin and one distance h per class.

    Pixels closer to the object than h join it, or pixels of it closer to the background leave it; h
    is uniform in [low, high], in pixels (as in SpatialCorrection). Of an annotator, P(dilate) is
    the probability that Normal(mu, sigma^2) is positive, and h lies in |mu| - sigma to |mu| +
    sigma.
    """

    p_dilate: Rate = 0.5
    low: NotNegative = 7.0
    high: NotNegative = 9.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise RecipeError(f"expected low <= high, found low {self.low:g}, high {self.high:g}")

    @classmethod
    def fields_of(cls, annotator: Annotator) -> dict[str, float]:
        """Return the dilations and erosions that stand for an annotator."""
        mu, sigma = annotator.mu, annotator.sigma
        p_dilate = 0.5 * (1.0 + (math.erf(mu / sigma / math.sqrt(2)) if sigma else np.sign(mu)))
        low, high = max(0.0, abs(mu) - sigma), abs(mu) + sigma
        return {"p_dilate": float(p_dilate), "low": low, "high": high}

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a 2-D or 3-D mask or label map."""
        return noise_by_class(mask, rng, self._change)

    def _change(self, mask: Binary, rng: np.random.Generator) -> Binary:
        is_dilated = bool(rng.random() < self.p_dilate)
        noisy = shift_border(mask, float(rng.uniform(self.low, self.high)), is_dilated)
        if not noisy.any():
            lost = "morphological noise eroded an object away; the mask is empty"
            warnings.warn(lost, NoiseWarning, stacklevel=2)
        return noisy


def shift_border(mask: Binary, h: float, is_dilated: bool) -> Binary:
    """Return {distance to the foreground < h}, or {distance to the background >= h}."""
    if mask.all() or h <= 0:
        return mask.copy()
    distance = signed_distance(mask)  # half a pixel less than the distance to the other side
    if is_dilated:
        return (distance + 0.5 < h).view(np.uint8) | mask
    return (0.5 - distance >= h).view(np.uint8) & mask


@dataclass(frozen=True)
class MarkovNoise(NoiseOptions):
    """Markov noise: random ``steps`` (paper: T) of the border, then flips everywhere, then a blur.

    A step grows the object with probability ``theta1``, else shrinks it, and flips each pixel of
    the rim with ``theta2``; after the last, any pixel is flipped with ``theta3``. Of an annotator,
    the border ends mu pixels away on average: it advances about 1.97 theta2 (2 theta1 - 1) pixels a
    step, so theta1 follows from mu; where even theta1 = 1 is too slow there are more steps. sigma
    is not used: the spread of the walk is its own.
    """

    steps: Annotated[int, Field(ge=0, le=MOST_STEPS)] = 200
    theta1: Rate = 0.8
    theta2: Rate = 0.05
    theta3: Rate = 0.2

    @classmethod
    def fields_of(cls, annotator: Annotator) -> dict[str, Any]:
        """Return steps and theta1 that stand for an annotator."""
        steps = max(cls.steps, math.ceil(abs(annotator.mu) / (ADVANCE * cls.theta2)), 1)
        theta1 = 0.5 + 0.5 * annotator.mu / (ADVANCE * cls.theta2 * steps)
        return {"steps": steps, "theta1": min(1.0, max(0.0, theta1))}

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a 2-D mask or label map."""
        return noise_by_class(mask, rng, self._change, dimensions=(2,))

    def _change(self, mask: Binary, rng: np.random.Generator) -> Binary:
        walked = self.walk(mask, rng)
        walked ^= (rng.random(mask.shape) <= self.theta3).view(np.uint8) if self.theta3 else 0
        return blur_and_threshold(walked)

    def walk(self, mask: Binary, rng: Draws) -> Binary:
        """Return a binary mask (0, 1) after the steps, before the last flips and the blur."""
        walked, rng = mask.copy(), generator(rng)
        for done in range(0, self.steps, BLOCK):
            places = np.nonzero(walked)
            if not len(places[0]):
                break
            # A step moves the border by one pixel at most: farther away nothing can happen.
            box = tuple(slice(max(0, p.min() - BLOCK), p.max() + BLOCK + 1) for p in places)
            part = np.ascontiguousarray(walked[box])
            self._walk_within(part, min(BLOCK, self.steps - done), rng)
            walked[box] = part
        return walked

    def _walk_within(self, walked: Binary, steps: int, rng: np.random.Generator) -> None:
        flat = walked.reshape(-1)
        for _ in range(steps):
            is_growing = rng.random() < self.theta1
            side = walked if is_growing else 1 - walked
            rim = np.flatnonzero(cv2.dilate(side, CROSS) != side)
            flat[rim[rng.random(len(rim)) < self.theta2]] ^= 1


def blur_and_threshold(mask: Binary) -> Binary:
    """Blur with a Gaussian of 5 pixels a side, sigma 2, and keep what is above one half."""
    kernel = cv2.getGaussianKernel(5, 2.0).astype(np.float32)
    blurred = cv2.sepFilter2D(mask.astype(np.float32), -1, kernel, kernel)
    return np.asarray(blurred > 0.5).view(np.uint8)
