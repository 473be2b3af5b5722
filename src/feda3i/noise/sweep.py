"""The robust way to move a contour: flip the pixels that each piece of it sweeps over.

Filling a moved outline by the even-odd rule punches holes where it crosses itself, and turns an
object inside out that shrinks past its core. Here the band between each short piece and where it
goes is added to the object or removed from it: nothing crosses and nothing turns over.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import cv2
import numpy as np

from feda3i.geometry import (
    Binary,
    Floats,
    Points,
    contour_normals,
    fill_polygon,
    label_components,
    outer_contours,
    signed_distance,
)
from feda3i.noise.bias import DEGREE, POINTS, draw_bias
from feda3i.noise.model import core_of

if TYPE_CHECKING:
    from feda3i.noise.contour import ContourEvolution

PIECES = 16  # at least, of a contour
REACH = 20  # pixels at 256: how far the normal looks to either side
SHORT = 60.0  # pixels at 256: shorter contours get fewer points; below half of it one common bias
TURN = 12  # and it looks at most 1/TURN of the contour to either side


def evolve_by_sweep(
    model: ContourEvolution, mask: Binary, rng: np.random.Generator
) -> tuple[Binary, list[Floats]]:
    """Return the noisy mask and the bias along each contour, holes after their component."""
    if not (mask[0].any() or mask[-1].any() or mask[:, 0].any() or mask[:, -1].any()):
        contours, has_hole = outer_contours(mask)
        if len(contours) != 1:
            return _evolve_components(model, mask, 0, rng)
        noisy, biases = _evolve_component(model, mask, contours[0], has_hole, rng)
        return noisy if noisy.any() else core_of(mask), biases
    if mask.all():
        return mask.copy(), []
    # The object goes on beyond the frame: its border there is not a contour, and must lie farther
    # away than any pixel moves.
    pad = math.ceil(model.clip) + _reach(model) + 2
    return _evolve_components(model, np.pad(mask, pad, mode="edge"), pad, rng)


def _reach(model: ContourEvolution) -> int:
    return max(2, round(REACH * model.scale))


def _evolve_components(
    model: ContourEvolution, mask: Binary, pad: int, rng: np.random.Generator
) -> tuple[Binary, list[Floats]]:
    """Change every 8-connected component in a box of its own; ``pad`` pixels surround the frame."""
    from scipy import ndimage

    noisy, biases = np.zeros_like(mask), []
    rows, cols = mask.shape[0] - 2 * pad, mask.shape[1] - 2 * pad
    labels, count = label_components(mask)
    margin = math.ceil(model.clip) + 2
    for label, (down, right) in enumerate(ndimage.find_objects(labels, count), 1):
        top, left = max(down.start - margin, 0), max(right.start - margin, 0)
        box = np.s_[top : down.stop + margin, left : right.stop + margin]
        component = (labels[box] == label).view(np.uint8)
        contours, has_hole = outer_contours(component)
        changed, drawn = _evolve_component(model, component, contours[0], has_hole, rng)
        seen = np.s_[max(pad - top, 0) : pad + rows - top, max(pad - left, 0) : pad + cols - left]
        if not changed[seen].any():
            changed[seen] = core_of(component[seen])
        noisy[box] |= changed
        biases += drawn
    return np.ascontiguousarray(noisy[pad : pad + rows, pad : pad + cols]), biases


def _evolve_component(
    model: ContourEvolution,
    component: Binary,
    contour: Points,
    has_hole: bool,
    rng: np.random.Generator,
) -> tuple[Binary, list[Floats]]:
    """Move the outer contour as one object, and every hole as an object that moves against it."""
    solid = fill_polygon(contour, component.shape) if has_hole else component
    changed, bias = _evolve_solid(model, solid, contour, rng)
    biases = [bias]
    if has_hole:
        # The background is 4-connected where the foreground is 8-connected.
        openings, number = label_components(solid ^ component, is_diagonal=False)
        for opening in range(1, number + 1):
            rim = outer_contours((openings == opening).view(np.uint8))[0][0]
            filled = fill_polygon(rim, component.shape)
            hole, bias = _evolve_solid(model, filled, rim, rng, is_hole=True)
            changed &= 1 - hole
            biases.append(bias)
    return changed, biases


def _evolve_solid(
    model: ContourEvolution,
    solid: Binary,
    contour: Points,
    rng: np.random.Generator,
    is_hole: bool = False,
) -> tuple[Binary, Floats]:
    """Move the contour of one object without holes; a hole moves the other way."""
    length = len(contour)
    start = int(rng.integers(length)) if model.start == "random" else 0
    is_short = 2 * length < SHORT * model.scale
    if is_short:
        mean = rng.normal(model.mu, model.sigma, POINTS).mean()
        bias = np.full(length, np.clip(mean, -model.clip, model.clip))
    else:
        share = min(1.0, length / (SHORT * model.scale))
        degree = max(1, round(DEGREE * share))
        points = max(degree + 1, round(POINTS * share))
        bias, _ = draw_bias(model, length, rng, points=points, degree=degree)
    if not bias.any() or (is_short and is_hole):
        return solid.copy(), bias  # a hole this small was not drawn as a contour of its own
    contour = np.roll(contour, -start, axis=0)
    outwards = -bias if is_hole else bias
    if is_short:
        return (signed_distance(solid) <= outwards[0]).view(np.uint8), bias
    normals = contour_normals(contour, max(1, min(_reach(model), length // TURN)))
    return _sweep_outline(solid, contour, normals, outwards), bias


def _sweep_outline(solid: Binary, contour: Points, normals: Floats, outwards: Floats) -> Binary:
    """Return the object plus the bands its contour crosses outwards, less those inwards.

    A pixel that moves inwards by b leaves a contour at depth b: its band ends one pixel before
    that.
    """
    side = np.sign(np.rint(outwards))
    shift = normals.T * np.where(side < 0, outwards + 1.0, outwards)
    reached = np.rint(contour.T + shift).astype(np.int32).T
    # Once round and back: pixel k, where it goes, and the first pixel again to close the contour.
    ring = np.concatenate([contour, contour[:1], reached[:1], reached[::-1]])
    ring = np.ascontiguousarray(ring[:, ::-1])  # OpenCV wants columns first
    added, removed = np.zeros_like(solid), np.zeros_like(solid)
    end = len(ring)
    for first, last in _pieces(side, normals):
        band = np.concatenate([ring[first:last], ring[end - last : end - first]])
        cv2.fillPoly(added if side[first] > 0 else removed, [band], 1)
    return (solid & (1 - removed)) | added


def _pieces(side: Floats, normals: Floats) -> list[tuple[int, int]]:
    """Cut a contour so that no band folds onto itself; leave out what does not move.

    Cuts are where the side changes, where the normal turns into another quadrant (at a tip bands
    overlap) and at regular distances. A piece ends with the first pixel of the next: no gaps.
    """
    down, right = normals.T > 0
    is_cut = side[1:] != side[:-1]
    is_cut |= (down[1:] != down[:-1]) | (right[1:] != right[:-1])
    is_cut[:: max(2, len(side) // PIECES)] = True
    cuts = [0, *(np.flatnonzero(is_cut) + 1).tolist(), len(side)]
    is_moving = side != 0
    return [(a, b + 1) for a, b in pairwise(cuts) if is_moving[a]]
