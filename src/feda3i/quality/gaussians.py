"""Gaussian mixtures on rows of numbers, and what to do when they cannot be fitted."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.quality.numbers import FloatArray
from feda3i.seeding import derive


def fit_gaussians(
    rows: FloatArray, components: int, seed: int, *, initialisations: int = 1, iterations: int = 100
) -> Any:
    """Return scikit-learn's mixture, converged or not; ``None`` if a covariance has no inverse."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        components,
        covariance_type="full",
        reg_covar=1e-6,
        init_params="kmeans",
        n_init=initialisations,
        max_iter=iterations,
        random_state=seed,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # callers judge the result
            return model.fit(rows)
    except ValueError:  # rows on one line, far from zero: their covariance lost its digits
        return None


RESTARTS = 20
"""Single starts of a mixture that are compared with the best of several."""


@dataclass(frozen=True)
class Split:
    """Posterior of the larger group per rated row (``None``: one group), and how it was found.

    ``agreement`` is the share of single starts that part the rows in the same way; ``NaN`` without
    a mixture.
    """

    larger: FloatArray | None
    reason: str
    agreement: float = math.nan


@dataclass(frozen=True)
class Mixture:
    """Fit two Gaussians with scikit-learn; if that fails, split at the median."""

    seed: int  # of the initialisations (k-means)
    # Five times the first and ten times the second are tried if the fit does not converge
    initialisations: int
    iterations: int
    bic_guard: bool  # return one group where one Gaussian has the smaller BIC

    def __call__(self, rows: FloatArray, difference: FloatArray, what: str) -> Split:
        """Divide ``(site, 1)`` or ``(site, 2)`` rows; larger is the component with more q1 - q2."""
        model, again = self._fit(rows, 2, 1), ""
        if model is None or not model.converged_:
            model, again = self._fit(rows, 2, 5), f", {5 * self.initialisations} initialisations"
        if model is None or not model.converged_:
            failed = "could not be fitted" if model is None else "did not converge"
            above = (difference > np.median(difference)).astype(np.float64)
            return Split(above, f"{what} {failed}, split at the median of q1 - q2")
        if self.bic_guard:
            one = self._fit(rows, 1, 1)
            if one is not None and one.bic(rows) <= model.bic(rows):
                return Split(None, f"one Gaussian fits better than {what} (BIC), one group")
        larger = _larger(model, rows)
        return Split(larger, what + again, self._agreement(rows, larger > 0.5))

    def _agreement(self, rows: FloatArray, larger: NDArray[np.bool_]) -> float:
        """Return the share of single starts, as the authors make one, that give these groups."""
        same = 0
        for number in range(RESTARTS):
            seed = derive(self.seed, "gmm-restart", number) % 2**32
            model = fit_gaussians(rows, 2, seed, iterations=self.iterations)
            same += model is not None and np.array_equal(_larger(model, rows) > 0.5, larger)
        return same / RESTARTS

    def _fit(self, rows: FloatArray, components: int, more: int) -> Any:
        return fit_gaussians(
            rows,
            components,
            derive(self.seed, "gmm") % 2**32,
            initialisations=self.initialisations * more,
            iterations=self.iterations * (1 if more == 1 else 10),
        )


def _larger(model: Any, rows: FloatArray) -> FloatArray:
    """Return the posterior of the component with more q1 - q2, ``(site,)``."""
    means = model.means_[:, 0] - (model.means_[:, 1] if rows.shape[1] == 2 else 0.0)
    larger: FloatArray = model.predict_proba(rows)[:, int(np.argmax(means))]
    return np.asarray(larger, dtype=np.float64)
