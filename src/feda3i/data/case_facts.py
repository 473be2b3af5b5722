"""What the doctor keeps of a case, and of the cases of a site: no pixels but the fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feda3i.data.duplicates import Fingerprint, fingerprint
from feda3i.reading.decode import RawCase
from feda3i.reading.problems import Level


@dataclass(frozen=True)
class Objects:
    """The separate objects of one mask: how many, and how wide the largest is."""

    count: int
    width: float  # of a disc (a ball) of the same size, in millimetres or in pixels


@dataclass(frozen=True)
class VolumeFacts:
    """What is kept of a volume besides.

    Parameters
    ----------
    voxels
        Mask value -> voxels of it.
    low, high
        The 0.5 and 99.5 percentiles of its values.
    is_cut
        Whether the mask holds values that are no classes, and was cut at half of its maximum.
    findings
        Level, kind and text of what is wrong with it.
    """

    voxels: dict[int, int]
    low: float
    high: float
    is_cut: bool = False
    findings: tuple[tuple[Level, str, str], ...] = ()


@dataclass(frozen=True)
class Facts:
    """What is kept of one case; nothing of it is a name."""

    shape: tuple[int, ...]
    channels: int
    share: float  # of the mask that is foreground
    values: frozenset[int]  # in the mask files
    print: Fingerprint
    objects: Objects
    spacing: tuple[float, ...]
    notes: tuple[tuple[str, str], ...]
    volume: VolumeFacts | None = None


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


def case_facts(
    raw: RawCase, share: float, values: Iterable[int], volume: VolumeFacts | None = None
) -> Facts:
    """Return the facts of a case whose mask has this share of foreground and these values."""
    return Facts(
        shape=raw.mask.shape,
        channels=raw.image.shape[-1],
        share=share,
        values=frozenset(values),
        print=fingerprint(raw.image),
        objects=measure_objects(raw.mask, raw.spacing),
        spacing=raw.spacing,
        notes=raw.notes,
        volume=volume,
    )


def measure_objects(mask: NDArray[np.uint8], spacing: Sequence[float] = ()) -> Objects:
    """Return the objects of a mask of two or three dimensions, all classes together.

    >>> measure_objects(np.array([[1, 1, 0, 0], [1, 1, 0, 1]], np.uint8))
    Objects(count=2, width=2.26)
    """
    from scipy import ndimage

    drawn = mask > 0
    if not drawn.any():
        return Objects(0, 0.0)
    # Only the box around the foreground is labelled: volumes are large, their masks small.
    labels, count = ndimage.label(drawn[ndimage.find_objects(drawn.view(np.uint8))[0]])
    size = float(np.bincount(labels.reshape(-1))[1:].max()) * float(np.prod(spacing or 1.0))
    width = 2 * np.sqrt(size / np.pi) if mask.ndim == 2 else np.cbrt(6 * size / np.pi)
    return Objects(int(count), round(float(width), 2))


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
        objects=float(np.mean([fact.objects.count for fact in filled] or [0])),
        width=float(np.median([fact.objects.width for fact in filled] or [0.0])),
        unit=unit,
    )


def table_lines(rows: Mapping[str, SiteFacts]) -> list[str]:
    """Return the sites below each other, one line each."""
    width = max(len(name) for name in [*rows, "site"])
    unit = next(iter(rows.values())).unit if rows else "px"
    head = (
        f"{'site':{width}}  train  test  foreground (from - to)  objects  width of largest ({unit})"
    )
    lines = [head]
    for name, row in rows.items():
        share = f"{row.share:.1%} ({row.lowest:.1%} - {row.highest:.1%})"
        empty = f"  {row.empty} empty masks" if row.empty else ""
        lines.append(
            f"{name:{width}}  {row.train:5}  {row.test:4}  {share:>22}  {row.objects:7.1f}  "
            f"{row.width:21.1f}{empty}"
        )
    return lines
