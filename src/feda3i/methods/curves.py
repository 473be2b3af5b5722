"""When does a learning curve bend: the switch of ADELE, as arithmetic on a list of IoU values.

Training on noisy masks first learns what the masks have in common, then the noise. The IoU of
prediction and given masks rises steeply in the first phase and slowly in the second; the switch
fires when the slope of a fitted curve has lost a given share of its first value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from feda3i.core.messages import Floats

FEWEST = 4
"""Three parameters need at least one point more."""
STEEP = 0.1
"""An increase of the IoU that ends a flat head."""


class Curve(NamedTuple):
    """The curve f(x) = a (1 - exp(-x^b / c))."""

    a: float
    b: float
    c: float

    def value(self, x: Floats) -> Floats:
        """Return f(x)."""
        return np.asarray(-self.a * np.expm1(-(x**self.b) / self.c))

    def slope(self, x: Floats) -> Floats:
        """Return f'(x); a small shift keeps it finite at zero, where b < 1 makes it steep."""
        x = x + 1e-6
        power = x**self.b / self.c
        return np.asarray(self.a * self.b * power / x * np.exp(-power))


def fit_curve(values: Sequence[float]) -> Curve | None:
    """Fit a curve with 0 <= a <= 1, 0 <= b <= 1, c > 0; ``None`` if the fit fails.

    The x of m values in [0, 1] are spread evenly over [0, m]; late points weigh up to a hundredfold
    in the squared sum.

    >>> fitted = fit_curve(0.7 * (1 - np.exp(-np.linspace(0, 12, 12) / 3)))
    >>> [round(float(parameter), 3) for parameter in fitted]
    [0.7, 1.0, 3.0]
    """
    from scipy.optimize import least_squares

    y = np.asarray(values, dtype=np.float64)
    if len(y) < 2 or not np.isfinite(y).all():
        return None
    x = np.linspace(0.0, len(y), len(y))
    error = np.geomspace(1.0, 0.1, len(y))

    def residuals(parameters: Floats) -> Floats:
        return (Curve(*parameters).value(x) - y) / error

    bounds = ([0.0, 0.0, 1e-12], [1.0, 1.0, np.inf])
    found = least_squares(residuals, (1.0, 1.0, 1.0), bounds=bounds, method="trf")
    if not found.success or not np.isfinite(found.x).all():
        return None
    return Curve(*(float(parameter) for parameter in found.x))


def flat_head(values: Sequence[float], keep: int = FEWEST) -> int:
    """Return how many leading points to cut: those before the first increase of at least 0.1.

    Zero if fewer than ``keep`` points would remain. Without that limit a curve that never rises so
    fast would be eaten up to its last point, and the switch would never fire.

    >>> flat_head([0.0, 0.01, 0.02, 0.3, 0.5, 0.6, 0.65]), flat_head([0.1, 0.15, 0.2, 0.22, 0.23])
    (2, 0)
    """
    increases = np.diff(np.asarray(values, dtype=np.float64))
    steep = np.flatnonzero(increases >= STEEP)
    cut = int(steep[0]) if len(steep) else len(increases)
    return cut if len(values) - cut >= keep else 0


def bend(curve: Curve, r: float, rounds: int) -> int | None:
    """Return the step after which the slope has lost more than the share ``r`` of its first value.

    That is 1 + the number of steps, of 1 to ``rounds - 1``, whose slope has changed by no more than
    that share; ``None`` for a curve without slope.
    """
    slope = curve.slope(np.arange(1.0, max(rounds, 2)))
    if not slope[0] > 0 or not np.isfinite(slope).all():
        return None
    change = np.abs(slope - slope[0]) / slope[0]
    # A change above one is counted as none, as the authors do.
    return 1 + int(np.count_nonzero((change <= r) | (change > 1)))


def has_bent(
    values: Sequence[float], r: float, rounds: int, *, trim: bool = True, points: int = FEWEST
) -> bool:
    """Return whether early learning is over: the curve has lost the share ``r`` of its slope.

    The values are the IoU of the initial model with the given masks, and after each round so far of
    all ``rounds``. ``trim`` leaves out a flat head; fewer than ``points`` decide nothing.

    >>> curve = 0.7 * (1 - np.exp(-np.arange(20) / 3))
    >>> [has_bent(curve[: m + 1], 0.9, 100) for m in (8, 9)]
    [False, True]
    """
    if len(values) < points:
        return False
    cut = flat_head(values, keep=points) if trim else 0
    curve = fit_curve(values[cut:])
    step = None if curve is None else bend(curve, r, rounds)
    return step is not None and len(values) - 1 >= step + cut
