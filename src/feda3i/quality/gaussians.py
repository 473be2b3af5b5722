"""Gaussian mixtures on rows of numbers, and what to do when they cannot be fitted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

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


@dataclass(frozen=True)
class Split:
    """Posterior of the larger group per rated row (``None``: one group), and how it was found."""

    larger: FloatArray | None
    reason: str


@dataclass(frozen=True)
class Mixture:
    """Fit two Gaussians with scikit-learn; if that fails, split at the median.

    Parameters
    ----------
    seed
        Of the initialisations (k-means).
    initialisations, iterations
        Five times the first and ten times the second are tried if the fit does not converge.
    bic_guard
        Return one group where one Gaussian has the smaller BIC.
    """

    seed: int
    initialisations: int
    iterations: int
    bic_guard: bool

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
        means = model.means_[:, 0] - (model.means_[:, 1] if rows.shape[1] == 2 else 0.0)
        larger = model.predict_proba(rows)[:, int(np.argmax(means))]
        return Split(np.asarray(larger, dtype=np.float64), what + again)

    def _fit(self, rows: FloatArray, components: int, more: int) -> Any:
        return fit_gaussians(
            rows,
            components,
            derive(self.seed, "gmm") % 2**32,
            initialisations=self.initialisations * more,
            iterations=self.iterations * (1 if more == 1 else 10),
        )
