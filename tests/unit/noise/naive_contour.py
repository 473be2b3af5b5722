"""The published contour evolution, one pixel at a time: oracle and slow side of the benchmark.

Follows the published algorithm literally, with plain loops, ``numpy.polyfit`` for the polynomial
and for the line through each window of contour pixels, and nothing shared with ``feda3i.noise``.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.uint8]
Point = tuple[int, int]

POINTS, DEGREE, CLIP, CLOSURE, REACH, STEPS = 30, 10, 30.0, 3.0, 20, 5


def naive_evolution(
    mask: Mask, mu: float, sigma: float, rng: np.random.Generator, retries: int = 200
) -> Mask:
    """Return the noisy mask of a binary mask: components one by one, results joined."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
    out = np.zeros_like(mask)
    if count < 2:
        return out
    areas = stats[1:, cv2.CC_STAT_AREA]
    largest = 1 + int(np.argmax(areas))
    for label in range(1, count):
        if label == largest or areas[label - 1] >= 15:
            part = (labels == label).astype(np.uint8)
            out |= naive_component(part, mu, sigma, rng, retries)
    return out


def naive_component(
    mask: Mask, mu: float, sigma: float, rng: np.random.Generator, retries: int
) -> Mask:
    """Move the outer contour of one component and fill it."""
    found, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    walk = [(int(y), int(x)) for x, y in found[0][:, 0]]
    start = int(rng.integers(len(walk)))
    walk = walk[start:] + walk[:start]
    if len(walk) // POINTS == 0:
        return np.zeros_like(mask)
    bias = naive_bias(len(walk), mu, sigma, rng, retries)
    if all(b == 0 for b in bias):
        return mask.copy()
    moved = [naive_move(mask, walk, k, bias[k]) for k in range(len(walk))]
    kept = [(col, row) for place in moved if place is not None for row, col in [place]]
    out = np.zeros_like(mask)
    if kept:
        cv2.fillPoly(out, [np.array(kept, np.int32)], 1)
    return out


def naive_bias(
    length: int, mu: float, sigma: float, rng: np.random.Generator, retries: int
) -> NDArray[np.float64]:
    """Fit a polynomial through 30 drawn values until both ends of the contour meet."""
    margin = length // POINTS
    where = [k * margin for k in range(POINTS)] + [length]
    weight = [10.0] + [1.0] * (POINTS - 1) + [10.0]
    best, gap = np.zeros(length), math.inf
    for _ in range(retries):
        drawn = list(rng.normal(mu, sigma, POINTS))
        # Positions are divided by the length: the same polynomial, far better conditioned.
        scaled = [u / length for u in where]
        curve = np.polyfit(scaled, drawn + drawn[:1], DEGREE, w=weight)
        bias = np.clip(np.polyval(curve, np.arange(length) / length), -CLIP, CLIP)
        if abs(bias[0] - bias[-1]) < gap:
            best, gap = bias, abs(bias[0] - bias[-1])
        if gap < CLOSURE:
            break
    return best


def naive_normal(walk: list[Point], k: int) -> tuple[float, float]:
    """Return the unit normal (row, column) at pixel k from a line through 41 contour pixels."""
    window = [walk[(k + j) % len(walk)] for j in range(-REACH, REACH + 1)]
    rows, cols = [p[0] for p in window], [p[1] for p in window]
    if len(set(rows)) < len(set(cols)):
        slope = 1 / (float(np.polyfit(cols, rows, 1)[0]) + 1e-9)
    else:
        slope = float(np.polyfit(rows, cols, 1)[0])
    # A slope of exactly 1/20 happens on real contours; the tolerance makes the answer independent
    # of how the line was fitted.
    if slope == 0 or abs(1 / slope) >= 20 * (1 - 1e-9):
        return 0.0, 1.0
    across = -1 / slope
    return 1 / math.hypot(1, across), across / math.hypot(1, across)


def naive_move(mask: Mask, walk: list[Point], k: int, bias: float) -> Point | None:
    """Return where pixel k goes, or None if it is dropped."""
    (row, col), (down, right) = walk[k], naive_normal(walk, k)

    def at(step: float) -> Point:
        place = round(row + step * down), round(col + step * right)
        return (
            min(max(place[0], 0), mask.shape[0] - 1),
            min(max(place[1], 0), mask.shape[1] - 1),
        )

    for step in range(1, STEPS + 1):
        ahead, behind = mask[at(step)], mask[at(-step)]
        if ahead != behind:
            place = at(bias if behind else -bias)
            is_inside = bool(mask[place])
            wrong = (bias > 1 and is_inside) or (bias <= -1 and not is_inside)
            return None if wrong else place
    return None
