"""Noise that is drawn at another size than the masks have.

The paper's noise is made for pictures of 256 px. Its published form drops objects below 15 pixels
and contours shorter than 30, so in pictures of 48 px it would lose every tenth mask.
"""

from __future__ import annotations

from dataclasses import dataclass

from feda3i.core.resize import resize_mask
from feda3i.noise.model import Mask, NoiseModel
from feda3i.seeding import Draws, generator


@dataclass(frozen=True)
class DrawnAtSize:
    """A noise model that enlarges a mask, changes it there, and brings it back.

    Parameters
    ----------
    model
        The noise at the other size.
    factor
        Sides of the other size in sides of the mask.
    """

    model: NoiseModel
    factor: float

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a mask with values 0 to 255."""
        sides = tuple(max(1, round(side * self.factor)) for side in mask.shape)
        drawn = self.model(resize_mask(mask.astype("uint8"), sides), generator(rng))
        return resize_mask(drawn, mask.shape).astype(mask.dtype)
