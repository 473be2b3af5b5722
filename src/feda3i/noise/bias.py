"""How far each pixel of a contour moves: the bias that is drawn."""

from functools import lru_cache

import numpy as np

from feda3i.geometry import Floats
from feda3i.noise.model import BorderNoise

# Residual weight of the first value and of its copy that closes the contour, in the published code.
ANCHOR_WEIGHT = 10.0
CLOSURE = 3.0  # pixels at 256: both ends of the bias sequence must meet within this distance
REDRAWS = 200  # after which the best of the sequences drawn so far is taken
POINTS, DEGREE = 30, 10  # drawn values (paper: l_sub) and degree of the polynomial (paper: p)


@lru_cache(maxsize=1024)
def fit_operator(points: int, degree: int, gap: float) -> Floats:
    """Return the matrix ``(degree + 1, points)`` from drawn values to Chebyshev coefficients.

    Values sit at 0, gap, 2 gap, ... of a contour of length 1, the first again at 1; both ends weigh
    ten times the others in the least-squares polynomial.
    """
    places = np.append(np.arange(points) * gap, 1.0)
    weight = np.ones(points + 1)
    weight[[0, -1]] = ANCHOR_WEIGHT
    basis = np.polynomial.chebyshev.chebvander(2.0 * places - 1.0, degree)
    operator = np.linalg.pinv(basis * weight[:, None]) * weight
    operator[:, 0] += operator[:, -1]
    return np.ascontiguousarray(operator[:, :-1])


@lru_cache(maxsize=1024)
def evaluation_basis(length: int, degree: int) -> Floats:
    """Return the Chebyshev polynomials ``(length, degree + 1)`` at the pixels of a contour."""
    places = 2.0 * np.arange(length) / length - 1.0
    return np.ascontiguousarray(np.polynomial.chebyshev.chebvander(places, degree))


def draw_bias(
    model: BorderNoise,
    length: int,
    rng: np.random.Generator,
    gap: float | None = None,
    points: int = POINTS,
    degree: int = DEGREE,
) -> tuple[Floats, int]:
    """Draw how far each of ``length`` contour pixels moves; return also how often it was drawn.

    ``points`` values from Normal(mu, sigma^2), the polynomial through them, clipped; again until
    the ends meet. ``gap`` between values is a share of the contour; by default they are spread
    evenly.
    """
    clip, scale = model.clip, model.scale
    operator = fit_operator(points, degree, 1.0 / points if gap is None else gap)
    basis = evaluation_basis(length, degree)
    ends = basis[[0, -1]]
    best, smallest, tries = operator[:, 0], np.inf, 0
    while smallest >= CLOSURE * scale and tries < REDRAWS:
        tries += 1
        curve = operator @ rng.normal(model.mu, model.sigma, points)
        first, last = (ends @ curve).tolist()
        opening = abs(min(max(first, -clip), clip) - min(max(last, -clip), clip))
        if opening < smallest:
            best, smallest = curve, opening
    bias: Floats = np.clip(basis @ best, -clip, clip)
    return bias, tries
