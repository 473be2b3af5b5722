"""Merges and a guard for rounds in which a site may send anything: arrays in, arrays out.

All of them hold for a minority of bad sites only, and need the replies of all sites at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feda3i.core.messages import Floats

Values = NDArray[np.float32]
Flags = NDArray[np.bool_]
_BLOCK = 1 << 16
FEWEST = 3
"""Sites below which a median says nothing about a single one."""


def trim_count(sites: int, share: float) -> int:
    """Return how many values are cut off at each end: a share of the sites, rounded up.

    >>> [trim_count(n, 0.2) for n in (2, 3, 5, 10, 11)]
    [0, 1, 1, 2, 3]
    """
    return min(math.ceil(round(share * sites, 9)), (sites - 1) // 2)


def trimmed_mean(rows: Values, cut: int) -> Values:
    """Return the mean of each column without its ``cut`` smallest and largest values.

    >>> trimmed_mean(np.array([[0], [1], [2], [99]], dtype=np.float32), 1)
    array([1.5], dtype=float32)
    """
    out = np.empty(rows.shape[1], rows.dtype)
    for start in range(0, rows.shape[1], _BLOCK):
        block = np.sort(rows[:, start : start + _BLOCK], axis=0)[cut : len(rows) - cut]
        out[start : start + _BLOCK] = block.mean(axis=0, dtype=np.float64)
    return out


def column_median(rows: Values) -> Values:
    """Return the median of each column."""
    return trimmed_mean(rows, (len(rows) - 1) // 2)


@dataclass(frozen=True)
class Judgement:
    """How one site's update compares with the others of the round.

    ``ratio`` is its norm by the median norm, the larger one of trained values and of buffers;
    ``cosine`` is that of its trained values to the mean of the others, each cut to the median norm.
    """

    norms: tuple[float, float]
    ratio: float
    cosine: float


def judge(rows: Values, base: Values, is_trained: Flags) -> tuple[list[Judgement], Floats]:
    """Return a judgement of every row, and the median norms of trained values and of buffers.

    Buffers (running means and variances) are judged by themselves: theirs is another scale, behind
    which changed weights could hide.
    """
    squares = np.zeros((len(rows), 2))
    for start in range(0, len(base), _BLOCK):
        block, trained = _updates(rows, base, start), is_trained[start : start + _BLOCK]
        np.square(block, out=block)
        squares[:, 0] += block[:, trained].sum(axis=1)
        squares[:, 1] += block[:, ~trained].sum(axis=1)
    norms = np.sqrt(squares)
    medians = np.median(norms, axis=0)
    # With a median of zero, most did not move at all: whoever did is infinitely far off.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(norms / medians, nan=0.0, posinf=np.inf).max(axis=1)
        cut = np.where(norms[:, 0] > 0, np.minimum(1.0, medians[0] / norms[:, 0]), 0.0)
    cosines = _cosines(rows, base, is_trained, cut, squares[:, 0])
    found = [
        Judgement((float(n[0]), float(n[1])), float(r), float(c))
        for n, r, c in zip(norms, ratios, cosines, strict=True)
    ]
    return found, medians


def _updates(rows: Values, base: Values, start: int) -> Floats:
    stop = start + _BLOCK
    return rows[:, start:stop].astype(np.float64) - base[start:stop]


def _cosines(rows: Values, base: Values, is_trained: Flags, cut: Floats, squares: Floats) -> Floats:
    """Return the cosine of each update u to the sum s of the others, all cut to the median norm.

    With t the sum of all and c u a cut update: s = t - c u, so u s and s s follow from u t and t t.
    """
    dots, total = np.zeros(len(rows)), 0.0
    for start in range(0, len(base), _BLOCK):
        block = _updates(rows, base, start) * is_trained[start : start + _BLOCK]
        together = cut @ block
        dots += block @ together
        total += float(together @ together)
    to_others = dots - cut * squares
    others = np.maximum(total - 2 * cut * dots + cut**2 * squares, 0.0)
    scale = np.sqrt(squares * others)
    return np.divide(to_others, scale, out=np.zeros(len(rows)), where=scale > 0)


def far_off(judged: Sequence[Judgement], factor: float) -> list[int]:
    """Return who is above ``factor`` times the median norm: the farthest, less than half of all."""
    if len(judged) < FEWEST:
        return []
    found = [k for k, one in enumerate(judged) if one.ratio > factor]
    farthest = sorted(found, key=lambda k: (-judged[k].ratio, k))
    return sorted(farthest[: (len(judged) - 1) // 2])


def opposed(judged: Sequence[Judgement], but: Sequence[int]) -> list[int]:
    """Return who points against the others, besides those named already.

    How well honest updates agree depends on the data and on the stage of the training: cosines of
    0.1 are common. A turned-round update lies as far below zero as the others are above, so half
    the median cosine, turned round, is where opposition begins. If that were half of the sites or
    more, or the median is not positive, nobody can say who is wrong: nobody.
    """
    middle = float(np.median([one.cosine for one in judged]))
    if len(judged) < FEWEST or middle <= 0:
        return []
    found = [k for k, one in enumerate(judged) if one.cosine < -middle / 2 and k not in but]
    return found if 2 * (len(found) + len(but)) < len(judged) else []
