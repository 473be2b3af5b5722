"""The commands to use for a folder: of pictures, or of volumes whole or slice by slice."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from feda3i.data.case_facts import Facts
from feda3i.reading.options import MIN_SIZE

MOST_VOXELS, MOST_PIXELS = 64**3, 256**2
"""Largest patch of volumes and of slices that is suggested: minutes, not hours, without a GPU."""
MOST_SIDE = 256  # of pictures
THICK = 1.5
"""Slices so many times as thick as voxels are wide decide along which axis to cut."""


def suggest_patch(
    sides: Sequence[float], spacing: Sequence[float] = (), most: int = MOST_VOXELS
) -> tuple[int, ...]:
    """Return a patch of sides divisible by 16 that fits into the median case.

    Where that is more than ``most`` voxels, the side that is longest in millimetres gives way.

    >>> suggest_patch((36, 50, 35)), suggest_patch((80, 512, 512), (5, 0.7, 0.7))
    ((32, 48, 32), (16, 128, 128))
    """
    patch = [max(MIN_SIZE, int(side) // MIN_SIZE * MIN_SIZE) for side in sides]
    size = list(spacing) or [1.0] * len(patch)
    while np.prod(patch) > most and max(patch) > MIN_SIZE:
        free = [k for k, side in enumerate(patch) if side > MIN_SIZE]
        longest = max(free, key=lambda k: patch[k] * size[k])
        patch[longest] -= MIN_SIZE
    if max(patch) == MIN_SIZE:
        # The network halves four times, and instance normalisation needs two values then.
        patch[int(np.argmax(sides))] = 2 * MIN_SIZE
    return tuple(patch)


def volume_lines(
    root: Path, facts: Sequence[Facts], options: Sequence[str], size: int | None, sites: int
) -> tuple[list[str], tuple[int, ...]]:
    """Return what to type for volumes, the better way first, and the size of its patches.

    ``sites`` are to be simulated; with 0 the folders are the sites.
    """
    shapes = np.array([(size,) * 3 if size else fact.shape for fact in facts], float)
    sides = np.median(shapes, axis=0).tolist()
    known = [fact.spacing for fact in facts if len(fact.spacing) == len(sides)]
    spacing = [] if size or not known else np.median(np.array(known), axis=0).tolist()
    across = _slice_axis(sides, spacing)
    patch = suggest_patch(sides, spacing)
    plane = suggest_patch([sides[k] for k in range(3) if k != across], most=MOST_PIXELS)
    # Cases are (slice, row, column), files the other way round.
    axis = [] if across == 0 else [f"data.axis={2 - across}"]
    slices = ["data.volumes=slices", *axis, _patch(plane), "train.batch=16", "train.epochs=1"]
    ways = {"whole volumes": [_patch(patch)], "slice by slice": slices}
    is_thin = min(sides) < MIN_SIZE  # too thin for patches in space
    if is_thin:
        ways = dict(reversed(ways.items()))
    fixed = [*options, *([f"data.size={size}"] if size else ())]
    return _lines("own-volumes", root, fixed, ways, sites), plane if is_thin else patch


def picture_lines(
    root: Path, facts: Sequence[Facts], options: Sequence[str], size: int | None, sites: int
) -> list[str]:
    """Return what to type for a folder of pictures; ``sites`` as for volumes."""
    shortest = float(np.median([min(fact.shape) for fact in facts]))
    fits = min(MOST_SIDE, max(MIN_SIZE, int(shortest) // MIN_SIZE * MIN_SIZE))
    return _lines("own", root, [f"data.size={size or fits}", *options], {"run": []}, sites)


def shared_options(classes: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return the options that every command names."""
    named = [f"data.classes={json.dumps(list(classes), separators=(',', ':'))}"]
    return [*(named if len(classes) > 1 else ()), *keys]


def _lines(
    recipe: str, root: Path, options: Sequence[str], ways: Mapping[str, Sequence[str]], sites: int
) -> list[str]:
    width = max(len(way) for way in [*ways, "audit"]) + 2
    start = ["feda3i", "run", recipe, f"data={root}"]
    start += ["data.partition=iid", f"data.sites={sites}"] if sites else []
    lines = [f"{way:{width}}{shlex.join([*start, *options, *own])}" for way, own in ways.items()]
    best = next(iter(ways.values()))
    audit = shlex.join(["feda3i", "audit", str(root), *options, *best])
    needed = "needs one folder per site (SITE/images, SITE/masks)"
    return [*lines, f"{'audit':{width}}{needed if sites else audit}"]


def _patch(sides: Sequence[int]) -> str:
    return f"train.patch={json.dumps(sides, separators=(',', ':'))}"


def _slice_axis(sides: Sequence[float], spacing: Sequence[float]) -> int:
    """Return the side of a case along which its slices lie: the thin one, or the coarse one."""
    if min(sides) < MIN_SIZE:
        return int(np.argmin(sides))
    coarse = int(np.argmax(spacing)) if spacing else 0
    return coarse if spacing and spacing[coarse] > THICK * spacing[0] else 0
