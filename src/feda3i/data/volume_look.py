"""Look at one volume: its values, its mask, and whether the two lie in the same place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from feda3i.data.case_facts import Facts, VolumeFacts, case_facts
from feda3i.reading.decode import RawCase
from feda3i.reading.listing import Listed, Listing
from feda3i.reading.nifti import Geometry, geometry_of
from feda3i.reading.options import DEFAULT_CLASSES, MIN_SIZE
from feda3i.reading.pairs import Pair
from feda3i.reading.problems import CaseError, Level, by

ANY_CLASS = tuple(f"class-{value}" for value in range(1, 256))
"""Names for all values that a mask may hold, until it is known which there are."""
_SAMPLE = 1_000_000  # voxels that the percentiles are taken of
_SAME = 0.01  # part by which spacings may differ
_SHIFT = 0.5  # voxels by which a mask may lie beside its image

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
    volume = VolumeFacts(voxels, low, high, is_cut, tuple(_findings(raw, case.pair)))
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


def _findings(raw: RawCase, pair: Pair | None) -> list[Finding]:
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
    if pair is not None and pair.kind == "nifti":
        found += _misplaced(pair)
    return found


def _misplaced(pair: Pair) -> list[Finding]:
    """Compare the headers of an image and its masks."""
    try:
        image, *masks = (geometry_of(file) for file in (*pair.images[:1], *pair.masks))
    except CaseError:
        return []  # its voxels were read, and nothing else of a header is used
    found: list[Finding] = []
    if image.unit in ("meter", "micron"):
        text = f"the header counts in {image.unit}s, runs take its numbers as mm: correct it"
        found.append(("error", "spacing not in mm", text))
    for mask in masks:
        found += _beside(image, mask)
    return found


def _beside(image: Geometry, mask: Geometry) -> list[Finding]:
    fix = "resample the mask to its image, or copy the image's header if the voxels do match"
    if mask.affine is None and image.affine is not None:
        text = "its header does not say where its voxels lie; they are taken to match the image's"
        return [("note", "mask without geometry", text)]
    if not np.allclose(image.spacing, mask.spacing, rtol=_SAME, atol=0):
        text = f"image {by(image.spacing)} mm, mask {by(mask.spacing)} mm: {fix}"
        return [("error", "mask with another spacing", text)]
    gap = image.gap(mask)
    if gap > _SHIFT:
        text = f"the headers put the same voxel up to {gap:.1f} voxels apart (affine): {fix}"
        return [("error", "mask in another place", text)]
    return []
