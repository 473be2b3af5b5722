"""One annotator per site: M(mu_max, mu_min, sigma_max, p_d), and the settings of the paper."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from feda3i import seeding
from feda3i.errors import RecipeError, check_choice, unknown
from feda3i.noise.model import SIDE, Annotator, Checked, NotNegative, Number, Rate

Draw = Literal["exact", "bernoulli", "published"]


@dataclass(frozen=True)
class NoiseSetting(Checked):
    """M(mu_max, mu_min, sigma_max, p_d) of the paper, in pixels at 256 pixels a side."""

    mu_max: NotNegative
    mu_min: Annotated[Number, Field(le=0)]
    sigma_max: NotNegative
    p_d: Rate


# Table of the paper: N_S has a majority of sites that draw too small, N_E of sites too large.
SETTINGS: Mapping[str, NoiseSetting] = {
    "skin-ns": NoiseSetting(20.0, -20.0, 10.0, 0.2),
    "skin-ne": NoiseSetting(25.0, -25.0, 10.0, 0.8),
    "breast-ns": NoiseSetting(25.0, -15.0, 5.0, 0.2),
    "breast-ne": NoiseSetting(25.0, -15.0, 5.0, 0.8),
}


def get_setting(name: str) -> NoiseSetting:
    """Return one of the paper's four settings by name."""
    if (key := name.lower().replace("_", "-")) not in SETTINGS:
        raise unknown("noise setting", name, SETTINGS)
    return SETTINGS[key]


def draw_annotators(
    n: int,
    mu_max: float,
    mu_min: float,
    sigma_max: float,
    p_d: float,
    rng: seeding.Draws,
    draw: Draw = "exact",
    scale: float = 1.0,
) -> tuple[Annotator, ...]:
    """Draw the annotators of n sites from M(mu_max, mu_min, sigma_max, p_d).

    mu is uniform in (0, mu_max) for a site that expands, in (mu_min, 0) for one that shrinks; sigma
    is uniform in (sigma_max / 2, sigma_max); all in pixels at 256 a side, times ``scale``.

    ``draw`` is ``bernoulli``: each site expands with probability p_d (the paper); ``exact``: the
    number of sites that shrink is n (1 - p_d), rounded down (the published code); or ``published``:
    the same, with the very numbers that the authors drew, without ``rng``.

    >>> drawn = draw_annotators(50, 20, -20, 10, 0.2, np.random.default_rng(0))
    >>> sum(a.mu > 0 for a in drawn)
    10
    """
    NoiseSetting(mu_max, mu_min, sigma_max, p_d)
    check_choice("draw", draw, get_args(Draw))
    if n < 1 or scale <= 0:
        raise RecipeError(f"expected a site and a scale above 0, found {n} sites, scale {scale:g}")
    # 1 - 0.8 is a little less than 0.2: without the small term 50 sites would give 9, not 10.
    shrinking = math.floor((1.0 - p_d) * n + 1e-9)
    if draw == "published":
        if mu_min != -mu_max:
            raise RecipeError(
                f"noise.draw=published: expected mu_min = -mu_max, as for SKIN, found {mu_min} and "
                f"{mu_max}; the authors published no other draw: use noise.draw=exact"
            )
        legacy = np.random.RandomState(0)  # no other generator repeats their draw
        mu = legacy.uniform(0.0, mu_max, n)
        mu[legacy.choice(n, shrinking, replace=False)] *= -1.0
        sigma = legacy.uniform(sigma_max / 2.0, sigma_max, n)
    else:
        rng = seeding.generator(rng)
        if draw == "exact":
            is_growing = np.ones(n, bool)
            is_growing[rng.permutation(n)[:shrinking]] = False
        else:
            is_growing = rng.random(n) < p_d
        mu = np.where(is_growing, mu_max, mu_min) * rng.random(n)
        sigma = rng.uniform(sigma_max / 2.0, sigma_max, n)
    pairs = zip(mu.tolist(), sigma.tolist(), strict=True)
    return tuple(Annotator(scale * m, scale * s, scale) for m, s in pairs)


def annotators_of_setting(
    setting: NoiseSetting,
    sites: Sequence[str],
    shape: Sequence[int],
    seed: int,
    draw: Draw = "exact",
) -> dict[str, Annotator]:
    """Draw one annotator per site, scaled to images of this shape (their longer side / 256)."""
    names = sorted(sites)
    rng, scale = seeding.rng(seed, "annotators"), max(shape) / SIDE
    drawn = draw_annotators(len(names), **asdict(setting), rng=rng, draw=draw, scale=scale)
    return dict(zip(names, drawn, strict=True))
