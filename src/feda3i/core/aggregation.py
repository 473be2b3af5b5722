"""Weighted sums of network states, the rows of one buffer."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from feda3i.core.messages import Floats
from feda3i.errors import RunError

Spans = Sequence[tuple[int, int, int]]
_AT_ONCE = 16


def fold(rows: NDArray[np.float32], weights: Sequence[float]) -> Floats:
    """Return the weighted sum of rows ``(site, value)``, one after the other.

    A few rows at a time are added up in float32, which memory makes twice as fast, and their sum
    goes into a float64 total: the error does not grow with the number of sites.
    """
    import torch

    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), _AT_ONCE):
        first, *others = (torch.from_numpy(row) for row in rows[start : start + _AT_ONCE])
        partial = first * weights[start]
        for row, weight in zip(others, weights[start + 1 :], strict=False):
            partial.add_(row, alpha=weight)
        total += partial.numpy()
    return total


def combine(rows: NDArray[np.float32], weights: Floats, spans: Spans) -> NDArray[np.float32]:
    """Return the weighted sum of rows ``(site, value)``, the states of all sites in one buffer.

    Weights are ``(site,)`` or ``(site, stage)``, and each column sums to one; ``spans`` say which
    values belong to which stage (``Layout.spans``).

    >>> rows = np.array([[0, 0, 0, 0], [1, 1, 2, 2]], dtype=np.float32)
    >>> combine(rows, np.array([[0.5, 1.0], [0.5, 0.0]]), [(0, 2, 0), (2, 4, 1)])
    array([0.5, 0.5, 0. , 0. ], dtype=float32)
    """
    check_weights(weights, len(rows))
    # In the rows' precision: a float64 copy of all rows would cost three times the whole sum.
    columns = weights.astype(rows.dtype)
    if columns.ndim == 1:
        return np.asarray(columns @ rows)
    out = np.empty(rows.shape[1], rows.dtype)
    for start, stop, stage in spans:
        np.matmul(columns[:, stage], rows[:, start:stop], out=out[start:stop])
    return out


def check_weights(weights: Floats, sites: int) -> None:
    """Raise ``RunError`` unless the weights are finite, non-negative and sum to one per stage."""
    sums = weights.sum(axis=0)
    if len(weights) != sites or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise RunError(f"expected {sites} finite weights >= 0, found {weights.tolist()}")
    if not np.allclose(sums, 1.0, atol=1e-9):
        found = np.atleast_1d(sums).tolist()
        raise RunError(f"weights must sum to one per stage, found sums {found}")
