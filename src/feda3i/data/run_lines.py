"""The commands to use for a folder: of pictures, or of volumes whole or slice by slice."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from feda3i.data.case_facts import Facts
from feda3i.reading.options import MIN_SIZE

MOST_VOXELS, MOST_PIXELS = 64**3, 256**2
"""Largest patch of volumes and of slices that is suggested: minutes, not hours, without a GPU."""
MOST_SIDE = 256  # of pictures
THICK = 1.5
"""Slices so many times as thick as voxels are wide decide along which axis to cut."""
RECIPE = "own-volumes"


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


@dataclass(frozen=True)
class Suggestion:
    """Options of a run for these volumes.

    Parameters
    ----------
    by_slices
        Whether volumes are too thin for patches in space.
    sites
        Sites to simulate; 0 if the folders are the sites.
    """

    root: Path
    patch: tuple[int, ...]
    plane: tuple[int, ...]
    axis: int = 2
    by_slices: bool = False
    classes: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    sites: int = 0

    @property
    def trained_on(self) -> tuple[int, ...]:
        """Return the size of a patch by the better way."""
        return self.plane if self.by_slices else self.patch

    def lines(self) -> list[str]:
        """Return what to type, the better way first."""
        patch, plane = json.dumps(self.patch), json.dumps(self.plane)
        axis = [f"data.axis={self.axis}"] if self.axis != 2 else []
        whole = [f"train.patch={patch}".replace(" ", "")]
        slices = ["data.volumes=slices", *axis, f"train.patch={plane}".replace(" ", "")]
        slices += ["train.batch=16", "train.epochs=1"]
        ways = {"whole volumes": whole, "slice by slice": slices}
        order = sorted(ways, key=lambda way: (way == "whole volumes") == self.by_slices)
        lines = [f"{way:15}  {self._line(ways[way])}" for way in order]
        if self.sites:
            return [*lines, f"{'audit':15}  needs one folder per site (SITE/images, SITE/masks)"]
        audit = ["feda3i", "audit", str(self.root), *self._named(), *ways[order[0]]]
        return [*lines, f"{'audit':15}  {shlex.join(audit)}"]

    def _line(self, options: Sequence[str]) -> str:
        start = ["feda3i", "run", RECIPE, f"data={self.root}"]
        if self.sites:
            start += ["data.partition=iid", f"data.sites={self.sites}"]
        return shlex.join([*start, *self._named(), *options])

    def _named(self) -> list[str]:
        if len(self.classes) < 2:
            return list(self.more)
        return [f"data.classes={json.dumps(self.classes, separators=(',', ':'))}", *self.more]


def suggest(
    root: Path,
    facts: Sequence[Facts],
    classes: Sequence[str],
    *,
    size: int | None = None,
    sites: int = 0,
    more: Sequence[str] = (),
) -> Suggestion:
    """Return the options that fit the median of the volumes."""
    shapes = np.array([(size,) * 3 if size else fact.shape for fact in facts], float)
    sides = np.median(shapes, axis=0).tolist()
    known = [fact.spacing for fact in facts if len(fact.spacing) == len(sides)]
    spacing = [] if size or not known else np.median(np.array(known), axis=0).tolist()
    across = _slice_axis(sides, spacing)
    flat = [k for k in range(3) if k != across]
    return Suggestion(
        root=root,
        patch=suggest_patch(sides, spacing),
        plane=suggest_patch([sides[k] for k in flat], most=MOST_PIXELS),
        axis=2 - across,  # cases are (slice, row, column), files the other way round
        by_slices=min(sides) < MIN_SIZE,
        classes=tuple(classes),
        more=(*more, *([f"data.size={size}"] if size else ())),
        sites=sites,
    )


def picture_lines(
    root: Path,
    shapes: Sequence[tuple[int, ...]],
    classes: Sequence[str],
    *,
    size: int | None = None,
    sites: int = 0,
    more: Sequence[str] = (),
) -> list[str]:
    """Return what to type for a folder of pictures; ``sites`` are to be simulated, if any."""
    shortest = float(np.median([min(shape) for shape in shapes]))
    fits = min(MOST_SIDE, max(MIN_SIZE, int(shortest) // MIN_SIZE * MIN_SIZE))
    options = [f"data.size={size or fits}", *more]
    if len(classes) > 1:
        options.append(f"data.classes={json.dumps(list(classes), separators=(',', ':'))}")
    if sites:
        simulated = ["data.partition=iid", f"data.sites={sites}"]
        run = shlex.join(["feda3i", "run", "own", f"data={root}", *simulated, *options])
        return [f"run    {run}", "audit  needs one folder per site (SITE/images, SITE/masks)"]
    run = shlex.join(["feda3i", "run", "own", f"data={root}", *options])
    return [f"run    {run}", f"audit  {shlex.join(['feda3i', 'audit', str(root), *options])}"]


def _slice_axis(sides: Sequence[float], spacing: Sequence[float]) -> int:
    """Return the side of a case along which its slices lie: the thin one, or the coarse one."""
    if min(sides) < MIN_SIZE:
        return int(np.argmin(sides))
    coarse = int(np.argmax(spacing)) if spacing else 0
    return coarse if spacing and spacing[coarse] > THICK * spacing[0] else 0
