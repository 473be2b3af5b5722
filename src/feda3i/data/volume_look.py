"""Look at one volume: its values and its mask."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from feda3i.data.case_facts import Facts, VolumeFacts, case_facts
from feda3i.reading.decode import RawCase
from feda3i.reading.listing import Listed, Listing
from feda3i.reading.options import DEFAULT_CLASSES, MIN_SIZE
from feda3i.reading.problems import CaseError, Level, by

ANY_CLASS = tuple(f"class-{value}" for value in range(1, 256))
"""Names for all values that a mask may hold, until it is known which there are."""
_SAMPLE = 1_000_000  # voxels that the percentiles are taken of

Finding = tuple[Level, str, str]


def look_at_volume(listing: Listing, case: Listed) -> Facts:
    """Return the facts of a volume; ``CaseError`` if it cannot be read."""
    raw, is_cut = _read(listing, case)
    if raw.mask.ndim != 3:
        text = "a folder of volumes holds a picture with a mask: keep the two in separate folders"
        raise CaseError("picture among volumes", text)
    counts = np.bincount(raw.mask.reshape(-1), minlength=1)
    voxels = {int(value): int(counts[value]) for value in np.flatnonzero(counts)}
    flat = raw.image.reshape(-1)
    low, high = np.percentile(flat[:: math.ceil(flat.size / _SAMPLE)], (0.5, 99.5)).tolist()
    volume = VolumeFacts(voxels, low, high, is_cut, tuple(_findings(raw)))
    return case_facts(raw, 1 - voxels.get(0, 0) / raw.mask.size, voxels, volume)


def _read(listing: Listing, case: Listed) -> tuple[RawCase, bool]:
    """Return a case with the values of its mask, or else cut into foreground and background."""
    try:
        return listing.read(case), False
    except CaseError as error:
        if error.kind != "mask values" or listing.options.classes != ANY_CLASS:
            raise
        one = replace(listing, options=replace(listing.options, classes=DEFAULT_CLASSES))
        try:
            return one.read(case), True
        except CaseError:
            raise error from None


def _findings(raw: RawCase) -> list[Finding]:
    found: list[Finding] = []
    if raw.image.min() == raw.image.max():
        text = f"all voxels are {raw.image.min():g}: there is nothing to see; export it again"
        found.append(("note", "constant volume", text))
    if min(raw.mask.shape) < MIN_SIZE:
        text = f"{by(raw.mask.shape)}: patches have {MIN_SIZE} voxels a side, so it is surrounded"
        found.append(("note", f"side below {MIN_SIZE} voxels", text))
    if not raw.spacing:
        text = "the file has no voxel size: distances are counted in voxels"
        found.append(("note", "spacing missing", text))
    return found
