"""Weighted sums of network states: one by one in constant memory, or all from one buffer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from feda3i.core.layout import Layout
from feda3i.core.messages import Floats, Params
from feda3i.errors import RunError

Spans = Sequence[tuple[int, int, int]]
_EMPTY_AFTER = 16
_BLOCK = 1 << 16


class Fold:
    """A weighted sum that takes one update at a time, always in the same order.

    Adding float32 to a float64 total costs twice the time of adding to float32, because it is bound
    by memory. So a few updates are added up in float32 (rounding error below 1e-6 relative) and the
    partial sum is then emptied into a float64 total: nearly the speed of the first with an error
    of about two units in the last place that does not grow with the number of sites.
    """

    def __init__(self, layout: Layout) -> None:
        import torch

        self._partial = torch.empty(layout.size)
        self._total = np.zeros(layout.size)
        self._counts = np.zeros(layout.integers, np.int64)
        self._in_partial = 0
        self.weight = 0.0
        self.updates = 0

    def add(self, params: Params, weight: float) -> None:
        """Add ``weight * params``; integer buffers take the largest value seen."""
        import torch

        values = torch.from_numpy(params.values)
        if self._in_partial:
            self._partial.add_(values, alpha=weight)
        else:
            torch.mul(values, weight, out=self._partial)
        np.maximum(self._counts, params.counts, out=self._counts)
        self.weight += weight
        self.updates += 1
        self._in_partial += 1
        if self._in_partial == _EMPTY_AFTER:
            self._empty()

    def _empty(self) -> None:
        if not self._in_partial:
            return
        partial = self._partial.numpy()
        for start in range(0, len(partial), _BLOCK):  # in blocks: the float64 copy stays in cache
            self._total[start : start + _BLOCK] += partial[start : start + _BLOCK]
        self._in_partial = 0

    def result(self, expected_weight: float = 1.0) -> Params:
        """Return the sum; if sites were missing, divide by the weight of those that answered."""
        if not self.updates or not self.weight > 0:
            raise RunError(
                "no update with a positive weight arrived, so there is nothing to average"
            )
        self._empty()
        if self.weight != expected_weight:
            self._total /= self.weight
        return Params(self._total.astype(self._partial.numpy().dtype), self._counts.copy())


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
        raise RunError(
            f"weights must sum to one per stage, found sums {np.atleast_1d(sums).tolist()}"
        )
