"""A site whose masks were redrawn: the other method sees these in place of the given ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from feda3i import quality
from feda3i.core.patches import foreground_places
from feda3i.core.site import CaseFacts, Site
from feda3i.methods.parts.corrected import pack_masks, unpack_cases
from feda3i.methods.parts.measured import edges_at, sides_of, voxels_of

MEASURED, MOVED, REDRAWN = "measured", "moved", "redrawn"
"""Entries of the site's memory: ``(class, 3)``, ``(class,)``, and masks as bits."""


def measured_at(site: Site, fewest: int) -> list[quality.Offset]:
    """Return the site's offset for each class, in pixels of ``side_of``; measured once."""
    if MEASURED not in site.memory:
        rows = [row_of(one) for one in edges_at(site, fewest)]
        site.memory[MEASURED] = np.array(rows, dtype=np.float64)
    return [offset_of(*row) for row in site.memory[MEASURED].tolist()]


def row_of(offset: quality.Offset) -> tuple[float, float, int]:
    """Return offset, standard error and cases; all 0 if it cannot be told."""
    return (offset.offset, offset.error, offset.cases) if offset.is_known else (0.0, 0.0, 0)


def offset_of(offset: float, error: float, cases: float) -> quality.Offset:
    """Return what ``row_of`` was given, but for the reason.

    >>> offset_of(*row_of(quality.Offset(1.5, 0.5, 9)))
    Offset(offset=1.5, error=0.5, cases=9, reason='')
    """
    if cases > 0:
        return quality.Offset(offset, error, int(cases))
    return quality.Offset.unknown(0, "it could not be told")


def redrawn(site: Site, by: Sequence[float]) -> Site:
    """Return the site with its contours moved, by class; the site itself if nothing moves."""
    if not any(by):
        return site
    values = np.arange(1, site.classes + 1, dtype=np.uint8).reshape(-1, *[1] * len(site.shape))
    if MOVED not in site.memory or not np.array_equal(site.memory[MOVED], by):
        site.memory[MOVED] = np.array(by, dtype=np.float64)
        site.memory[REDRAWN] = pack_masks(mask[None] == values for mask in _moved(site, by))
    shapes = [(site.classes, *shape) for shape in site.shapes]
    bits = unpack_cases(site.memory[REDRAWN], range(len(site)), shapes)
    # Classes exclude each other, so the label map is their sum.
    masks = [(one * values).sum(axis=0, dtype=np.uint8) for one in bits]
    facts = site.facts
    if site.is_patched:  # patches are centred on redrawn masks
        facts = {
            place: CaseFacts(site.facts_of(place).line, foreground_places(mask, site.classes))
            for place, mask in zip(site.index.tolist(), masks, strict=True)
        }
    return replace(site, facts=facts, masks=masks)


def _moved(site: Site, by: Sequence[float]) -> list[NDArray[np.uint8]]:
    """Return all masks with their contours moved, each by its own pixels."""
    sides = sides_of(site) if site.is_patched else [quality.SIDE] * len(site)
    scales = [side / quality.SIDE for side in sides]
    return [
        quality.redraw(site.mask_of(k), [scale * one for one in by], sizes)
        for k, (scale, sizes) in enumerate(zip(scales, voxels_of(site), strict=True))
    ]
