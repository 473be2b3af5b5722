"""The commands to use for a folder of pictures or volumes, with options that fit it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from feda3i.data.case_facts import Facts
from feda3i.reading.options import MIN_SIZE

# The largest patch, slice and picture: minutes, not hours, without a GPU.
MOST_VOXELS, MOST_PIXELS, MOST_SIDE = 64**3, 256**2, 256


def suggest_patch(sides: Sequence[float], most: int = MOST_VOXELS) -> tuple[int, ...]:
    """Return a patch of sides divisible by 16 that fits into the median case.

    >>> suggest_patch((36, 50, 35)), suggest_patch((80, 512, 512))
    ((32, 48, 32), (64, 64, 64))
    """
    patch = [max(MIN_SIZE, int(side) // MIN_SIZE * MIN_SIZE) for side in sides]
    while np.prod(patch) > most:
        patch[int(np.argmax(patch))] -= MIN_SIZE
    if max(patch) == MIN_SIZE:
        # The network halves four times, and instance normalisation needs two values then.
        patch[int(np.argmax(sides))] = 2 * MIN_SIZE
    return tuple(patch)


def command_lines(
    root: Path, facts: Sequence[Facts], options: Sequence[str], size: int | None, sites: int
) -> list[str]:
    """Return what to type; ``sites`` are to be simulated, with 0 the folders are the sites."""
    if len(facts[0].shape) == 3:
        recipe, fitting = "own-volumes", _volume_options(facts, size)
    else:
        shortest = float(np.median([min(fact.shape) for fact in facts]))
        fits = min(MOST_SIDE, max(MIN_SIZE, int(shortest) // MIN_SIZE * MIN_SIZE))
        recipe, fitting = "own", [f"data.size={size or fits}"]
    simulated = ["data.partition=iid", f"data.sites={sites}"] if sites else []
    run = ["feda3i", "run", recipe, f"data={root}", *simulated, *fitting, *options]
    audit = shlex.join(["feda3i", "audit", str(root), *fitting, *options])
    needed = "needs one folder per site (SITE/images, SITE/masks)"
    return [f"run    {shlex.join(run)}", f"audit  {needed if sites else audit}"]


def _volume_options(facts: Sequence[Facts], size: int | None) -> list[str]:
    """Return the options for patches in space, or in slices if volumes are too thin for that."""
    sides = np.median([(size,) * 3 if size else fact.shape for fact in facts], axis=0).tolist()
    thin = int(np.argmin(sides))
    if sides[thin] >= MIN_SIZE:
        cube = [f"data.size={size}"] if size else []
        return [*cube, _patch(suggest_patch(sides))]
    plane = suggest_patch([side for k, side in enumerate(sides) if k != thin], most=MOST_PIXELS)
    # Cases are (slice, row, column), files the other way round.
    axis = [] if thin == 0 else [f"data.axis={2 - thin}"]
    return ["data.volumes=slices", *axis, _patch(plane), "train.batch=16", "train.epochs=1"]


def _patch(sides: Sequence[int]) -> str:
    return f"train.patch={json.dumps(sides, separators=(',', ':'))}"
