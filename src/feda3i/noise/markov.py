"""Markov noise (MLN): the border wanders pixel by pixel, outwards or inwards at each step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import cv2
import numpy as np
from pydantic import Field

from feda3i.geometry import Binary
from feda3i.noise.model import Annotator, Mask, NoiseOptions, Rate, noise_by_class
from feda3i.seeding import Draws, generator

# A front that flips rim pixels at random advances about this many times theta2 per step, since a
# rough rim has more pixels than a smooth one: 11.8 px in 200 steps at theta1 .8, theta2 .05.
ADVANCE = 1.97
MOST_STEPS = 1_000_000
CROSS = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))  # a pixel and its four neighbours
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

    steps: Annotated[int, Field(ge=0, le=MOST_STEPS)] = 200
    theta1: Rate = 0.8
    theta2: Rate = 0.05
    theta3: Rate = 0.2

    @classmethod
    def fields_of(cls, annotator: Annotator) -> dict[str, Any]:
        """Return the walk whose border ends mu pixels away on average.

        The border advances about 1.97 theta2 (2 theta1 - 1) pixels a step, so theta1 follows from
        mu; where even theta1 = 1 is too slow the number of steps grows. sigma is not used: the
        spread of the walk is its own.
        """
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
