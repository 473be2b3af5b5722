"""Morphological noise (MON): the whole object is dilated or eroded."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
from pydantic import NonNegativeInt

from feda3i.errors import DataError, RecipeError
from feda3i.geometry import Binary, signed_distance
from feda3i.noise.model import (
    Annotator,
    Checked,
    Mask,
    NoiseWarning,
    NotNegative,
    Rate,
    check_options,
    noise_by_class,
)
from feda3i.seeding import Draws

RELATIVE_AREA = 1000.0  # pixels of foreground at which the relative variant works


@dataclass(frozen=True)
class MorphologicalNoise(Checked):
    """Dilate with probability ``p_dilate``, else erode: one coin and one strength per mask.

    Parameters
    ----------
    variant
        ``distance``: all pixels closer to the object than h join it, or all pixels of it closer to
        the background than h leave it, h uniform in [low, high] (as in SpatialCorrection).
        ``relative``: a 3 x 3 square, ``least`` to ``most`` times, on the mask resized to about 1000
        foreground pixels, so the strength is relative to the object's size (as in ADELE); 2-D only.
    p_dilate
        Probability of dilating.
    low, high
        Limits of h in pixels, distance variant.
    least, most
        Limits of the number of times, relative variant.

    >>> disc = np.hypot(*(np.mgrid[:128, :128] - 64)) <= 40
    >>> noisy = MorphologicalNoise(p_dilate=1.0, low=7.0, high=7.0)(disc, np.random.default_rng(0))
    >>> round(float(noisy.sum() / disc.sum()), 2)
    1.35
    """

    variant: Literal["distance", "relative"] = "distance"
    p_dilate: Rate = 0.5
    low: NotNegative = 7.0
    high: NotNegative = 9.0
    least: NonNegativeInt = 2
    most: NonNegativeInt = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high or self.least > self.most:
            raise RecipeError(
                "expected low <= high and least <= most, found "
                f"low {self.low:g}, high {self.high:g}, least {self.least}, most {self.most}"
            )

    @classmethod
    def for_annotator(cls, annotator: Annotator, **options: Any) -> MorphologicalNoise:
        """Return the dilations and erosions that stand for an annotator.

        P(dilate) is the probability that Normal(mu, sigma^2) is positive; in the distance variant
        h is uniform in |mu| - sigma to |mu| + sigma, not below 0. The relative variant keeps its
        own strength: there mu and sigma give the preference only.
        """
        check_options(cls, options, given=("p_dilate", "low", "high", "least", "most"))
        mu, sigma = annotator.mu, annotator.sigma
        p_dilate = 0.5 * (1.0 + (math.erf(mu / sigma / math.sqrt(2)) if sigma else np.sign(mu)))
        low, high = max(0.0, abs(mu) - sigma), abs(mu) + sigma
        return cls(p_dilate=float(p_dilate), low=low, high=high, **options)

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a 2-D or 3-D mask or label map."""
        if self.variant == "relative" and np.ndim(mask) == 3:
            raise DataError(
                f"expected a 2-D mask for the relative variant, found shape {np.shape(mask)}; "
                "use variant 'distance' for volumes"
            )
        return noise_by_class(mask, rng, self._change)

    def _change(self, mask: Binary, rng: np.random.Generator) -> Binary:
        is_dilated = bool(rng.random() < self.p_dilate)
        if self.variant == "distance":
            noisy = shift_border(mask, float(rng.uniform(self.low, self.high)), is_dilated)
        else:
            noisy = resize_and_shift(mask, int(rng.integers(self.least, self.most + 1)), is_dilated)
        if not noisy.any():
            warnings.warn(
                "morphological noise eroded an object away; the mask is empty",
                NoiseWarning,
                stacklevel=2,
            )
        return noisy


def shift_border(mask: Binary, h: float, is_dilated: bool) -> Binary:
    """Return {distance to the foreground < h}, or {distance to the background >= h}."""
    if mask.all() or h <= 0:
        return mask.copy()
    distance = signed_distance(mask)  # half a pixel less than the distance to the other side
    if is_dilated:
        return (distance + 0.5 < h).view(np.uint8) | mask
    return (0.5 - distance >= h).view(np.uint8) & mask


def resize_and_shift(mask: Binary, times: int, is_dilated: bool) -> Binary:
    """Dilate or erode by a 3 x 3 square after resizing to about 1000 foreground pixels."""
    factor = math.sqrt(RELATIVE_AREA / int(mask.sum()))
    rows, cols = (max(1, round(n * factor)) for n in mask.shape)
    small = cv2.resize(mask.astype(np.float32), (cols, rows), interpolation=cv2.INTER_CUBIC) > 0
    square = np.ones((3, 3), np.uint8)
    change = cv2.dilate if is_dilated else cv2.erode
    shifted = change(small.view(np.uint8), square, iterations=times).astype(np.float32)
    back = cv2.resize(shifted, mask.shape[::-1], interpolation=cv2.INTER_CUBIC) > 0
    # Resampling may gain and lose pixels: only the wanted direction is let through.
    return mask | back.view(np.uint8) if is_dilated else mask & back.view(np.uint8)
