"""What the doctor keeps of a case, and of the cases of a site: no pixels but the fingerprint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from feda3i.data.duplicates import Fingerprint, fingerprint
from feda3i.data.orientation import judge_orientation
from feda3i.reading.decode import RawCase
from feda3i.reading.file_list import read_file
from feda3i.reading.listing import Listed, Listing
from feda3i.reading.options import DEFAULT_CLASSES, MIN_SIZE
from feda3i.reading.picture import Note, mask_values
from feda3i.reading.problems import CaseError, by

ANY_CLASS = tuple(f"class-{value}" for value in range(1, 256))
"""Names for all values that a mask may hold, until it is known which there are."""
_SAMPLE = 1_000_000  # voxels that the percentiles are taken of


@dataclass(frozen=True)
class Facts:
    """What is kept of one case; nothing of it is a name."""

    shape: tuple[int, ...]
    channels: int
    share: float  # of the mask that is foreground
    values: frozenset[int]  # in the mask files
    print: Fingerprint
    objects: int  # separate ones in the mask
    width: float  # of a disc (a ball) of the largest one's size, in millimetres or in pixels
    spacing: tuple[float, ...]
    notes: tuple[Note, ...]
    # Of volumes only:
    voxels: Mapping[int, int]  # of each mask value
    ends: tuple[float, float] = (0.0, 0.0)  # the 0.5 and 99.5 percentiles of its values
    is_cut: bool = False  # the mask held no classes, and was cut at half of its maximum


@dataclass(frozen=True)
class SiteFacts:
    """One row of the table; shares and widths are medians over the cases with foreground."""

    train: int
    test: int
    share: float
    lowest: float
    highest: float
    empty: int
    objects: float
    width: float
    unit: str


def look_at(listing: Listing, case: Listed) -> Facts:
    """Return the facts of a case; ``CaseError`` if it cannot be read."""
    raw, is_cut = _read(listing, case)
    ends, voxels, notes = (0.0, 0.0), dict[int, int](), list(raw.notes)
    if listing.options.whole:
        if raw.mask.ndim != 3:
            text = "a folder of volumes holds a picture with a mask: keep them in separate folders"
            raise CaseError("picture among volumes", text)
        found, counts = np.unique(raw.mask, return_counts=True)
        voxels = dict(zip(found.tolist(), counts.tolist(), strict=True))
        flat = raw.image.reshape(-1)
        low, high = np.percentile(flat[:: math.ceil(flat.size / _SAMPLE)], (0.5, 99.5)).tolist()
        ends, values = (low, high), frozenset(voxels)
        notes += _odd(raw)
    else:
        files = [read_file(entry.place) for entry in case.pair.masks]
        values = frozenset(value for data in files for value in mask_values(data))
        if len(case.pair.images) == 1 and not case.pair.consensus:
            notes += judge_orientation(raw, case.pair, listing.options)
    objects, width = measure_objects(raw.mask, raw.spacing)
    return Facts(
        shape=raw.mask.shape,
        channels=raw.image.shape[-1],
        share=float(np.count_nonzero(raw.mask)) / raw.mask.size,
        values=values,
        print=fingerprint(raw.image),
        objects=objects,
        width=width,
        spacing=raw.spacing,
        notes=tuple(notes),
        voxels=voxels,
        ends=ends,
        is_cut=is_cut,
    )


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


def _odd(raw: RawCase) -> list[Note]:
    """Return what is odd about a volume that can be trained on."""
    found = []
    if raw.image.min() == raw.image.max():
        text = f"all voxels are {raw.image.min():g}: there is nothing to see; export it again"
        found.append(("constant volume", text))
    if min(raw.mask.shape) < MIN_SIZE:
        text = f"{by(raw.mask.shape)}: patches have {MIN_SIZE} voxels a side, so it is surrounded"
        found.append((f"side below {MIN_SIZE} voxels", text))
    if not raw.spacing:
        text = "the file has no voxel size: distances are counted in voxels"
        found.append(("spacing missing", text))
    return found


def measure_objects(mask: NDArray[np.uint8], spacing: Sequence[float] = ()) -> tuple[int, float]:
    """Return how many objects a mask has, all classes together, and how wide the largest is.

    >>> measure_objects(np.array([[1, 1, 0, 0], [1, 1, 0, 1]], np.uint8))
    (2, 2.26)
    """
    from scipy import ndimage

    drawn = mask > 0
    if not drawn.any():
        return 0, 0.0
    # Only the box around the foreground is labelled: volumes are large, their masks small.
    labels, count = ndimage.label(drawn[ndimage.find_objects(drawn.view(np.uint8))[0]])
    size = float(np.bincount(labels.reshape(-1))[1:].max()) * float(np.prod(spacing or 1.0))
    width = 2 * np.sqrt(size / np.pi) if mask.ndim == 2 else np.cbrt(6 * size / np.pi)
    return int(count), round(float(width), 2)


def site_facts(sides: Sequence[str], facts: Sequence[Facts], unit: str) -> SiteFacts:
    """Return the row of one site, from the split and the facts of its cases."""
    filled = [fact for fact in facts if fact.share > 0]
    shares = [fact.share for fact in filled] or [0.0]
    return SiteFacts(
        train=sides.count("train"),
        test=sides.count("test"),
        share=float(np.median(shares)),
        lowest=min(shares),
        highest=max(shares),
        empty=len(facts) - len(filled),
        objects=float(np.mean([fact.objects for fact in filled] or [0])),
        width=float(np.median([fact.width for fact in filled] or [0.0])),
        unit=unit,
    )


def table_lines(rows: Mapping[str, SiteFacts]) -> list[str]:
    """Return the sites below each other, one line each."""
    width = max(len(name) for name in [*rows, "site"])
    unit = next(iter(rows.values())).unit if rows else "px"
    lines = [
        f"{'site':{width}}  train  test  foreground (from - to)  objects  width of largest ({unit})"
    ]
    for name, row in rows.items():
        share = f"{row.share:.1%} ({row.lowest:.1%} - {row.highest:.1%})"
        empty = f"  {row.empty} empty masks" if row.empty else ""
        lines.append(
            f"{name:{width}}  {row.train:5}  {row.test:4}  {share:>22}  {row.objects:7.1f}  "
            f"{row.width:21.1f}{empty}"
        )
    return lines
