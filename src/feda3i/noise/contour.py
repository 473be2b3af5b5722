"""Contour evolution C(mu, sigma): the annotation noise of the FedA3I paper, section 'Noise'."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from feda3i.geometry import Binary, Floats
from feda3i.noise.model import BorderNoise, Mask, noise_by_class
from feda3i.noise.published import evolve_published
from feda3i.noise.sweep import evolve_by_sweep
from feda3i.seeding import Draws


@dataclass(frozen=True)
class ContourEvolution(BorderNoise):
    """Noise that moves the contour of each object along its normals: C(mu, sigma).

    30 values from Normal(mu, sigma^2) are spread along the contour (paper: l_sub), a polynomial of
    degree 10 (paper: p) is fitted through them, and each contour pixel moves by its value, by at
    most 30 pixels at 256. mu and sigma are in pixels, a positive mu expands; ``scale`` is image
    side / 256, ``start`` a ``random`` border pixel or ``fixed``, the first in scan order.

    >>> disc = np.hypot(*(np.mgrid[:256, :256] - 128)) <= 40
    >>> noisy = ContourEvolution(8.0, 0.0)(disc, np.random.default_rng(0))
    >>> round(float(noisy.sum() / disc.sum()), 2)
    1.44
    """

    OPTIONS = ("mode",)

    mode: Literal["robust", "faithful"] = "robust"
    """robust flips the pixels that the moving contour sweeps over, so outlines never cross, an
    object shrunk past its core leaves its core, small objects and holes are kept, and the frame is
    not a contour. faithful is the published algorithm step by step: it fills the moved outline by
    the even-odd rule, drops components below 15 pixels and holes, lets objects turn inside out when
    shrunk too far, and loses objects with a contour shorter than 30 pixels."""
    start: Literal["random", "fixed"] = "random"

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the noisy mask of a 2-D mask or label map."""
        return self.evolve(mask, rng)[0]

    def evolve(self, mask: Mask, rng: Draws) -> tuple[Mask, list[Floats]]:
        """Return the noisy mask, and the bias along each contour that was moved."""
        biases: list[Floats] = []

        def change(region: Binary, rng: np.random.Generator) -> Binary:
            noisy, drawn = evolve_region(self, region, rng)
            biases.extend(drawn)
            return noisy

        # The published algorithm fills every hole by itself.
        is_nested = self.mode == "robust"
        evolve_region = evolve_by_sweep if is_nested else evolve_published
        return noise_by_class(mask, rng, change, dimensions=(2,), is_nested=is_nested), biases
