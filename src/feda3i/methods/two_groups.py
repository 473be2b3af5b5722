"""Separate a high group from a low one with two Gaussians; robust where there is only one."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.messages import Floats
from feda3i.quality.weights import fit_gaussians

MOST = 100_000
"""Points that a fit looks at; more are drawn from and then classified by the fitted mixture."""
_CHUNK = 1 << 20

Points = NDArray[np.floating[Any]]


def high_group(points: Points, seed: int, *, most: int = MOST) -> NDArray[np.bool_]:
    """Return which points belong to the component with the larger mean (sum over columns).

    Points are ``(point,)`` or ``(point, column)``, finite. Nobody is in the high group if there is
    nothing to tell apart. More than ``most`` points are drawn from.
    """
    rows = points[:, np.newaxis] if points.ndim == 1 else points
    nobody = np.zeros(len(rows), dtype=bool)
    if len(rows) < 2 or np.ptp(rows, axis=0).max() <= 1e-12 * max(1.0, np.abs(rows).max()):
        return nobody
    drawn = rows
    if len(rows) > most:
        chosen = np.random.default_rng(seed).choice(len(rows), most, replace=False, shuffle=False)
        drawn = rows[chosen]
    mixture = fit_gaussians(drawn.astype(np.float64), 2, seed)
    if mixture is None:
        return nobody
    high = int(np.argmax(mixture.means_.sum(axis=1)))
    # In chunks: the pixels of a site are many, and a prediction takes some copies of its rows.
    chunks = (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))
    parts = [mixture.predict(chunk.astype(np.float64)) == high for chunk in chunks]
    is_high = np.concatenate(parts)
    return nobody if is_high.all() else is_high


def min_max(columns: Floats) -> Floats:
    """Return the columns scaled to 0..1; a constant one becomes 0."""
    low, span = columns.min(axis=0), np.ptp(columns, axis=0)
    return np.where(span > 0, (columns - low) / np.where(span > 0, span, 1.0), 0.0)


def vote_high_group(numbers: Floats, seeds: int = 9) -> NDArray[np.bool_]:
    """Return the high group that most of several mixtures agree on, the first one on ties.

    Missing entries (NaN) of ``(site, column)`` take the smallest value of their column, then each
    column is scaled to 0..1.
    """
    finite = np.isfinite(numbers)
    low = np.where(finite, numbers, np.inf).min(axis=0)
    filled = np.where(finite, numbers, np.where(np.isfinite(low), low, 0.0))
    scaled = min_max(filled)
    votes = [tuple(high_group(scaled, seed).tolist()) for seed in range(seeds)]
    # Counter keeps the order of first sight, and most_common is stable.
    return np.array(Counter(votes).most_common(1)[0][0], dtype=bool)
