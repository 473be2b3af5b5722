"""Shares of the whole with a cap: how much one site may count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cap_shares(shares: NDArray[np.float64], most: float) -> NDArray[np.float64]:
    """Return shares of at most ``most``; what is cut off goes to the others in proportion.

    Where so few sites cannot share the whole under the cap, all get the same.

    >>> cap_shares(np.array([0.8, 0.1, 0.1]), 0.5).tolist()
    [0.5, 0.25, 0.25]
    >>> cap_shares(np.array([0.8, 0.2]), 0.4).tolist()
    [0.5, 0.5]
    """
    count = len(shares)
    if not count or shares.max() <= most:
        return shares
    if most * count <= 1:
        return np.full(count, 1 / count)
    is_capped = np.zeros(count, dtype=bool)
    capped = shares
    while np.any(capped > most):  # each turn caps at least one more
        is_capped |= capped > most
        rest = shares[~is_capped]
        left = 1 - most * is_capped.sum()
        capped = np.full(count, most)
        # Sites without a case, if nobody else is left, share alike.
        of_rest = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1 / len(rest))
        capped[~is_capped] = left * of_rest
    return capped
