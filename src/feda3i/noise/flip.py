"""Class-conditional noise (CCN): every pixel is flipped on its own, with a rate per class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from feda3i.geometry import Binary
from feda3i.noise.model import Annotator, Mask, NoiseOptions, Rate, noise_by_class
from feda3i.seeding import Draws

# An annotator who is off by this many pixels (at 256) flips every pixel of one class.
PIXELS_OF_RATE_ONE = 100.0


@dataclass(frozen=True)
class ClassConditional(NoiseOptions):
    """Flip background pixels with rate ``rho_01`` and foreground pixels with rate ``rho_10``.

    No spatial term: near and far from the contour alike. A mask without foreground stays empty,
    as for every model here.

    >>> mask = np.zeros((4, 4), np.uint8); mask[1:3, 1:3] = 1
    >>> bool((ClassConditional(1.0, 1.0)(mask, np.random.default_rng(0)) == 1 - mask).all())
    True
    """

    rho_01: Rate = 0.2
    rho_10: Rate = 0.2

    @classmethod
    def fields_of(cls, annotator: Annotator) -> dict[str, float]:
        """Return the rates that stand for an annotator.

        mu decides which class is hit: rate |mu| / 100 (at 256 pixels) on background pixels if mu is
        positive, on foreground pixels if negative; sigma adds sigma / 200 to both. So mu = 20 gives
        the customary rate of 0.2. Rates end at 0.5.
        """
        mu, sigma = annotator.mu / annotator.scale, annotator.sigma / annotator.scale
        both = 0.5 * sigma / PIXELS_OF_RATE_ONE
        grow, shrink = max(mu, 0.0) / PIXELS_OF_RATE_ONE, max(-mu, 0.0) / PIXELS_OF_RATE_ONE
        return {"rho_01": min(0.5, grow + both), "rho_10": min(0.5, shrink + both)}

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a 2-D or 3-D mask or label map."""
        return noise_by_class(mask, rng, self._change)

    def _change(self, mask: Binary, rng: np.random.Generator) -> Binary:
        rate = np.where(mask, self.rho_10, self.rho_01)
        return mask ^ (rng.random(mask.shape) < rate).view(np.uint8)
