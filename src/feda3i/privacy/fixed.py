"""Weighted networks as integers modulo 2^64: their sums are exact, in whatever order.

Floating-point sums depend on their order, and masks would not cancel in them. Here every site
multiplies its values by its weight and rounds to multiples of 2^-36; masks cancel to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.aggregation import Spans
from feda3i.core.messages import Floats
from feda3i.errors import RunError

Integers = NDArray[np.uint64]
FRACTION = 36
"""Bits behind the point: steps of 1.5e-11, far below the last digit of a float32 weight."""
LARGEST = 2.0**26
"""The largest value that may be summed. Weights sum to one, so no sum reaches 2^63."""


def quantise(values: NDArray[Any], weights: Floats, spans: Spans) -> Integers:
    """Return one site's values times its weights as integers.

    ``weights`` are the site's own in every stage, 0..1; ``spans`` say which values belong to which
    stage (``Layout.spans``).

    >>> one = quantise(np.array([1.0, -2.0]), np.array([0.5]), [(0, 2, 0)])
    >>> restore(one, np.array([0.5]), [(0, 2, 0)], "float32")
    array([ 1., -2.], dtype=float32)
    """
    largest = float(np.abs(values).max(initial=0.0))
    if not largest <= LARGEST:
        raise RunError(
            f"secure aggregation sums values up to {LARGEST:g}, found {largest:.3g}; has the "
            f"training diverged? Try a smaller train.lr"
        )
    out = np.empty(len(values), np.int64)
    for start, stop, stage in spans:
        scaled = values[start:stop].astype(np.float64) * (weights[stage] * 2.0**FRACTION)
        out[start:stop] = np.rint(scaled)
    return out.view(np.uint64)


def restore(total: Integers, weights: Floats, spans: Spans, dtype: str) -> NDArray[Any]:
    """Return the mean from a sum of integers and the summed weights ``(stage,)``."""
    signed = total.view(np.int64)
    out = np.empty(len(total), dtype)
    for start, stop, stage in spans:
        out[start:stop] = signed[start:stop] * (2.0**-FRACTION / weights[stage])
    return out
