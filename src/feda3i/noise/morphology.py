"""Morphological noise (MON): the whole object is dilated or eroded by a distance."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

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
from feda3i.seeding import Draws


@dataclass(frozen=True)
class MorphologicalNoise(NoiseOptions):
    """Dilate with probability ``p_dilate``, else erode: one coin and one distance h per class.

    All pixels closer to the object than h join it, or all pixels of it closer to the background
    than h leave it. h is uniform in [low, high], in pixels (as in SpatialCorrection).

    >>> disc = np.hypot(*(np.mgrid[:128, :128] - 64)) <= 40
    >>> noisy = MorphologicalNoise(p_dilate=1.0, low=7.0, high=7.0)(disc, np.random.default_rng(0))
    >>> round(float(noisy.sum() / disc.sum()), 2)
    1.35
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
        """Return the dilations and erosions that stand for an annotator.

        P(dilate) is the probability that Normal(mu, sigma^2) is positive; h is uniform in
        |mu| - sigma to |mu| + sigma, not below 0.
        """
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
