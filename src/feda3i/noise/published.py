"""The published way to move a contour, step by step, for all contour pixels at once.

The comments number the steps of the published algorithm; ``naive_contour.py`` among the tests
does the same pixel by pixel, with the same bits. Two repairs: the column of a probe is limited by
the number of columns (the published code uses the rows), and the number of redraws is limited.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i.geometry import Binary, Floats, Points, fill_polygon, label_components, outer_contours
from feda3i.noise.bias import POINTS, draw_bias
from feda3i.noise.model import NoiseWarning

if TYPE_CHECKING:
    from feda3i.noise.contour import ContourEvolution

REACH = 20  # contour pixels on either side of the one whose normal is wanted
STEPS = 5  # pixels along the normal in which inside and outside must show
STEEPEST = 20.0 * (1 - 1e-9)  # the tolerance decides slopes of exactly 1/20, which do happen
SMALLEST_PART = 15  # pixels; smaller components vanish, unless it is the largest


def evolve_published(
    model: ContourEvolution, mask: Binary, rng: np.random.Generator
) -> tuple[Binary, list[Floats]]:
    """Return the noisy mask and the bias of each 4-connected component (steps 0 to 12)."""
    noisy, biases = np.zeros_like(mask), []
    for component, contour in split_components(mask):
        changed, bias = _evolve_component(model, component, contour, rng)
        noisy |= changed
        biases.append(bias)
    if biases and not noisy.any():
        warnings.warn(
            "the published algorithm lost the object (a contour shorter than its points, or all "
            "points dropped) and returned an empty mask; mode 'robust' keeps it",
            NoiseWarning,
            stacklevel=2,
        )
    return noisy, biases


def _evolve_component(
    model: ContourEvolution, mask: Binary, contour: Points, rng: np.random.Generator
) -> tuple[Binary, Floats]:
    length = len(contour)
    start = int(rng.integers(length)) if model.start == "random" else 0  # step 2
    contour = np.roll(contour, -start, axis=0)
    margin = length // POINTS
    if margin == 0:  # step 3: the published function returns nothing that can be drawn
        return np.zeros_like(mask), np.zeros(length)
    bias, _ = draw_bias(model, length, rng, margin / length)  # steps 4 to 6
    if not bias.any():  # step 7
        return mask.copy(), bias
    moved, is_dropped = move_contour(mask, contour, bias)
    return fill_polygon(moved[~is_dropped], mask.shape), bias  # step 12


def split_components(mask: Binary) -> list[tuple[Binary, Points]]:
    """Return (component, outer contour) of the 4-connected parts that are kept, in scan order."""
    labels, count = label_components(mask, is_diagonal=False)
    areas = np.bincount(labels.ravel(), minlength=count + 1)
    areas[0] = 0
    kept = {*np.flatnonzero(areas >= SMALLEST_PART).tolist(), int(np.argmax(areas))} - {0}
    parts = [(labels == k).astype(np.uint8) for k in sorted(kept)]
    return [(part, outer_contours(part)[0][0]) for part in parts]


def line_normals(contour: Points) -> tuple[Floats, Floats]:
    """Return unit normals (down, right) of straight lines through windows of 41 pixels (step 8).

    Sums over a window are differences of running sums, which float64 holds exactly.
    """
    around = np.concatenate([contour[-REACH - 1 :], contour, contour[:REACH]])
    terms = np.empty((5, len(around)))
    row, col = line = terms[:2]
    line[:] = (around - around[0]).T  # keeps the squares small; a slope does not see the shift
    np.multiply(row, col, out=terms[2])
    np.multiply(line, line, out=terms[3:])
    running = terms.cumsum(axis=1)
    width = 2 * REACH + 1
    r, c, rc, rr, cc = running[:, width:] - running[:, :-width]
    # On an 8-connected walk the number of distinct rows is their range + 1.
    lines, kernel = line[:, 1:].astype(np.float32), np.ones((1, width), np.uint8)
    spread = cv2.dilate(lines, kernel) - cv2.erode(lines, kernel)
    row_range, col_range = spread[:, REACH:-REACH]
    is_flat = row_range < col_range
    slope = (width * rc - r * c) / np.where(is_flat, width * cc - c * c, width * rr - r * r)
    # The slope of the normal is -1 / slope, and a flat window's slope is 1 / (its own + 1e-9).
    with np.errstate(divide="ignore"):
        across = np.where(is_flat, -slope - 1e-9, -1.0 / slope)
    is_steep = np.abs(across) >= STEEPEST
    across[is_steep] = 0.0
    down = 1.0 / np.sqrt(1.0 + across * across)
    right = across * down
    down[is_steep], right[is_steep] = 0.0, 1.0
    return down, right


def move_contour(mask: Binary, contour: Points, bias: Floats) -> tuple[Points, NDArray[np.bool_]]:
    """Return where the contour pixels go ``(l, 2)`` and which of them are dropped ``(l,)``."""
    down, right = line_normals(contour)
    row, col = contour.T.astype(np.float64)
    # Step 9: walk both ways; the first step at which the sides differ tells inside from outside.
    outwards = np.zeros(len(contour))
    unsure = np.arange(len(contour))
    for step in range(1, STEPS + 1):
        at, by = (row[unsure], col[unsure]), (step * down[unsure], step * right[unsure])
        ahead = mask.take(_flat_place(mask, at[0] + by[0], at[1] + by[1])).view(np.int8)
        behind = mask.take(_flat_place(mask, at[0] - by[0], at[1] - by[1])).view(np.int8)
        outwards[unsure] = behind - ahead
        unsure = unsure[ahead == behind]
        if not len(unsure):
            break
    # Step 10: move; step 11: drop what landed on the wrong side of the clean contour.
    step_by = outwards * bias
    place = _flat_place(mask, row + step_by * down, col + step_by * right)
    is_dropped = np.where(mask.take(place), bias > 1, bias <= -1)
    is_dropped[unsure] = True
    return np.stack(np.divmod(place, mask.shape[1]), axis=1).astype(np.int32), is_dropped


def _flat_place(mask: Binary, row: Floats, col: Floats) -> NDArray[np.intp]:
    """Return the nearest pixel within the frame as an index into the flattened mask."""
    rows, cols = mask.shape
    row = np.minimum(np.maximum(np.rint(row), 0.0), rows - 1.0)
    col = np.minimum(np.maximum(np.rint(col), 0.0), cols - 1.0)
    return np.asarray(row * cols + col, np.intp)
