"""A site whose masks were redrawn: the other method sees these in place of the given ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from feda3i import quality
from feda3i.core.cases import Index
from feda3i.core.site import Batch, Site, mask_tensor
from feda3i.methods.parts.corrected import pack_masks, unpack_masks

MEASURED, MOVED, REDRAWN = "measured", "moved", "redrawn"
"""Entries of the site's memory: ``(class, 3)``, ``(class,)``, and masks as bits."""


@dataclass
class RedrawnSite(Site):
    """A site with other masks, ``(case, *space)`` by position of the case within the site."""

    masks: NDArray[np.uint8] = field(kw_only=True)

    def given_masks(self, positions: Sequence[int] | Index | None = None) -> NDArray[np.uint8]:
        """Return the redrawn masks; copies."""
        return self.masks.copy() if positions is None else self.masks[np.asarray(positions)]

    def batch(self, positions: Index, epoch: int = 0) -> Batch:
        """Return cases with their redrawn masks."""
        given = super().batch(positions, epoch)
        masks = mask_tensor(self.masks[positions], self.classes, self.device)
        return Batch(positions, given.images, masks, epoch)


def measured_at(site: Site, fewest: int) -> list[quality.Offset]:
    """Return the site's offset for each class; measured once, then remembered."""
    if MEASURED not in site.memory:
        images, masks = site.cases.images[site.index], site.given_masks()
        found = [
            quality.measure_edges(images, masks == value, fewest, site.voxels())
            for value in range(1, site.classes + 1)
        ]
        site.memory[MEASURED] = np.array([row_of(one) for one in found], dtype=np.float64)
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
    shape = (site.classes, *site.shape)
    values = np.arange(1, site.classes + 1, dtype=np.uint8).reshape(-1, *[1] * len(site.shape))
    if MOVED not in site.memory or not np.array_equal(site.memory[MOVED], by):
        given, sizes = site.given_masks(), site.voxels()
        sides = [None] * len(given) if sizes is None else sizes.tolist()
        moved = [quality.redraw(mask, by, one) for mask, one in zip(given, sides, strict=True)]
        masks = np.stack(moved)
        site.memory[MOVED] = np.array(by, dtype=np.float64)
        site.memory[REDRAWN] = pack_masks(masks[:, None] == values)
    bits = unpack_masks(site.memory[REDRAWN], shape)
    # Classes exclude each other, so the label map is their sum.
    masks = (bits * values).sum(axis=1, dtype=np.uint8)
    return RedrawnSite(
        **{part.name: getattr(site, part.name) for part in fields(Site)}, masks=masks
    )
