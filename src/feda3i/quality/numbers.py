"""Arrays as JSON: server state is data, and JSON has no NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def to_json(values: FloatArray) -> Any:
    """Return nested lists with ``None`` for what is not finite.

    >>> to_json(np.array([[0.5, np.nan]]))
    [[0.5, None]]
    """
    if values.ndim > 1:
        return [to_json(row) for row in values]
    return [value if math.isfinite(value) else None for value in values.tolist()]


def from_json(data: Any) -> FloatArray:
    """Return the array that ``to_json`` wrote; ``None`` becomes ``NaN``."""
    return np.array(data, dtype=np.float64)
