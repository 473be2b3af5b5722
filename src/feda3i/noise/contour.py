"""Contour evolution C(mu, sigma): the annotation noise of the FedA3I paper, section 'Noise'."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from feda3i.errors import RecipeError
from feda3i.geometry import Binary, Floats
from feda3i.noise.model import (
    Annotator,
    Mask,
    NoiseOptions,
    NotNegative,
    Number,
    Positive,
    noise_by_class,
)
from feda3i.noise.published import evolve_published
from feda3i.noise.sweep import evolve_by_sweep
from feda3i.seeding import Draws


@dataclass(frozen=True)
class ContourEvolution(NoiseOptions):
    """Noise that moves the contour of each object along its normals: C(mu, sigma).

    ``points`` values from Normal(mu, sigma^2) are spread along the contour, a polynomial of degree
    ``degree`` is fitted through them, and each contour pixel moves by the polynomial's value.

    Parameters
    ----------
    mu, sigma
        Mean and standard deviation of the drawn values, in pixels; positive mu expands.
    points, degree
        Number of drawn values (paper: l_sub) and degree of the polynomial (paper: p).
    mode
        ``robust`` flips the pixels that the moving contour sweeps over, so outlines never cross, an
        object shrunk past its core leaves its core, small objects and holes are kept, and the frame
        is not a contour. ``faithful`` is the published algorithm step by step: it fills the moved
        outline by the even-odd rule, drops components below 15 pixels and holes, lets objects turn
        inside out when shrunk too far, and loses objects with a contour shorter than ``points``.
    clip
        Largest distance that the border moves, in pixels.
    start
        ``random`` border pixel to begin at, or ``fixed``: the first in scan order.
    scale
        Image side / 256: the limits of the algorithm that are lengths grow with it.

    >>> disc = np.hypot(*(np.mgrid[:256, :256] - 128)) <= 40
    >>> noisy = ContourEvolution(8.0, 0.0)(disc, np.random.default_rng(0))
    >>> round(float(noisy.sum() / disc.sum()), 2)
    1.44
    """

    GIVEN = ("mu", "sigma", "scale")

    mu: Number
    sigma: NotNegative
    points: Annotated[int, Field(ge=1, le=10_000)] = 30
    degree: Annotated[int, Field(ge=1, le=100)] = 10
    mode: Literal["robust", "faithful"] = "robust"
    clip: Positive = 30.0
    start: Literal["random", "fixed"] = "random"
    scale: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points <= self.degree:
            raise RecipeError(
                f"points: expected more points than the degree {self.degree} of the polynomial, "
                f"found {self.points}"
            )
        if abs(self.mu) > self.clip:
            raise RecipeError(
                f"mu: expected at most clip = {self.clip:g} pixels, found {self.mu:g}; raise clip"
            )

    @classmethod
    def for_annotator(cls, annotator: Annotator, **options: Any) -> ContourEvolution:
        """Return C(mu, sigma); lengths among the options are given at 256 pixels and scaled."""
        cls.check_options(options)
        full, factor = cls(mu=0.0, sigma=0.0, **options), annotator.scale
        mu, sigma = float(annotator.mu), float(annotator.sigma)
        return replace(full, mu=mu, sigma=sigma, clip=full.clip * factor, scale=factor)

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
