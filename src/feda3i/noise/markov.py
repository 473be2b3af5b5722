"""Markov noise (MLN): the border wanders pixel by pixel, outwards or inwards at each step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from feda3i.geometry import Binary
from feda3i.noise.model import Annotator, Mask, NoiseOptions, Rate, noise_by_class
from feda3i.seeding import Draws, generator

# A front that flips rim pixels at random advances about this many times theta2 per step, since a
# rough rim has more pixels than a smooth one: 11.8 px in 200 steps at theta1 .8, theta2 .05.
ADVANCE = 1.97
MOST_STEPS = 1_000_000
BLOCK = 16  # steps after which the examined part of the frame is chosen again


@dataclass(frozen=True)
class MarkovNoise(NoiseOptions):
    """Markov noise: ``steps`` random steps of the border, then flips everywhere, then a blur.

    Parameters
    ----------
    steps
        Number of steps (paper: T).
    theta1
        Probability that a step grows the object; else it shrinks.
    theta2
        Probability that a pixel of the rim is flipped in a step.
    theta3
        Probability that any pixel is flipped after the last step.

    >>> disc = np.hypot(*(np.mgrid[:64, :64] - 32)) <= 15
    >>> grown = MarkovNoise(50, theta1=1.0).walk(disc.view(np.uint8), np.random.default_rng(0))
    >>> bool((grown[disc] == 1).all())
    True
    """

    GIVEN = ("theta1", "theta2", "theta3")

    steps: Annotated[int, Field(ge=0, le=MOST_STEPS)] = 200
    theta1: Rate = 0.8
    theta2: Rate = 0.05
    theta3: Rate = 0.2

    @classmethod
    def for_annotator(cls, annotator: Annotator, **options: Any) -> MarkovNoise:
        """Return the walk whose border ends mu pixels away on average.

        The border advances about 1.97 theta2 (2 theta1 - 1) pixels a step, so theta1 follows from
        mu; where even theta1 = 1 is too slow the number of steps grows. sigma is not used: the
        spread of the walk is its own.
        """
        cls.check_options(options)
        model = cls(**options)
        steps = max(model.steps, math.ceil(abs(annotator.mu) / (ADVANCE * model.theta2)), 1)
        theta1 = 0.5 + 0.5 * annotator.mu / (ADVANCE * model.theta2 * steps)
        return replace(model, steps=steps, theta1=min(1.0, max(0.0, theta1)))

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a 2-D or 3-D mask or label map."""
        return noise_by_class(mask, rng, self._change)

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
            rim = np.flatnonzero((spread_by_one(side) ^ side).view(bool))
            flat[rim[rng.random(len(rim)) < self.theta2]] ^= 1


def spread_by_one(mask: Binary) -> Binary:
    """Return the mask with the neighbours across each face (4 in a plane, 6 in a volume)."""
    if mask.ndim == 2:
        cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
        return np.asarray(cv2.dilate(mask, cross), np.uint8)
    from scipy import ndimage

    return np.asarray(ndimage.binary_dilation(mask)).view(np.uint8)


def blur_and_threshold(mask: Binary) -> Binary:
    """Blur with a Gaussian of 5 pixels a side, sigma 2, and keep what is above one half."""
    blurred: NDArray[np.float32] = mask.astype(np.float32)
    kernel = cv2.getGaussianKernel(5, 2.0).astype(np.float32)
    if mask.ndim == 2:
        return np.asarray(cv2.sepFilter2D(blurred, -1, kernel, kernel) > 0.5).view(np.uint8)
    from scipy import ndimage

    for axis in range(mask.ndim):
        blurred = ndimage.correlate1d(blurred, kernel[:, 0], axis, mode="mirror")
    return np.asarray(blurred > 0.5).view(np.uint8)
