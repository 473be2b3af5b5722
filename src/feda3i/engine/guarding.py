"""The guard against a bad site: an update far larger than the others of its round is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from feda3i.core.messages import Floats, Missing, Reply
from feda3i.core.server import Gathered, Server

_BLOCK = 1 << 16
FEWEST = 3
"""Sites below which a median says nothing about a single one."""


def guard(
    server: Server, kept: Sequence[Reply], gathered: Gathered, factor: float
) -> tuple[list[Reply], list[Missing]]:
    """Return the replies that count and those left out; ``gathered`` keeps the former only."""
    names = [reply.site for reply in kept]
    ratios = norm_ratios(gathered.rows, server.params.values, server.layout.trained())
    far = far_off(ratios, factor)
    server.record(guard={n: round(r, 3) for n, r in zip(names, ratios.tolist(), strict=True)})
    if not far:
        return list(kept), []
    reasons = {
        names[k]: f"its update is {ratios[k]:.3g} times the median of the round" for k in far
    }
    server.record(guarded={site: f"left out: {reason}" for site, reason in reasons.items()})
    rest = [k for k in range(len(kept)) if k not in far]
    gathered.keep(rest)
    out = [Missing(site, f"left out by the guard: {reason}") for site, reason in reasons.items()]
    return [kept[k] for k in rest], out


def norm_ratios(
    rows: NDArray[np.float32], base: NDArray[np.float32], is_trained: NDArray[np.bool_]
) -> Floats:
    """Return the norm of each row's update by the median norm, ``(site,)``.

    Trained values and buffers (running means and variances) are compared apart, since theirs are
    different scales, and the larger ratio counts. With a median of zero most did not move at all:
    whoever did is infinitely far off.
    """
    squares = np.zeros((len(rows), 2))
    for start in range(0, len(base), _BLOCK):  # in blocks: a float64 copy of all would be large
        part = slice(start, start + _BLOCK)
        block = np.square(rows[:, part].astype(np.float64) - base[part])
        squares[:, 0] += block[:, is_trained[part]].sum(axis=1)
        squares[:, 1] += block[:, ~is_trained[part]].sum(axis=1)
    norms = np.sqrt(squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = norms / np.median(norms, axis=0)
    return np.asarray(np.nan_to_num(ratios, nan=0.0, posinf=np.inf).max(axis=1))


def far_off(ratios: Floats, factor: float) -> list[int]:
    """Return who is above ``factor`` times the median: the farthest, less than half of all.

    >>> far_off(np.array([1.0, 1.1, 9.0, 0.9]), 3.0), far_off(np.array([0.1, 1.9]), 3.0)
    ([2], [])
    """
    if len(ratios) < FEWEST:
        return []
    found = [k for k, ratio in enumerate(ratios) if ratio > factor]
    farthest = sorted(found, key=lambda k: (-ratios[k], k))
    return sorted(farthest[: (len(ratios) - 1) // 2])
