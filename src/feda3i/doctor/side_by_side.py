"""Sites side by side: how much of an image is foreground, and how large its objects are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Objects:
    """The separate objects of one mask: how many, and how wide the largest is."""

    count: int
    width: float  # of a disc (a ball) of the same size, in millimetres or in pixels


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


def site_facts(
    sides: Sequence[str], shares: Sequence[float], objects: Sequence[Objects], unit: str
) -> SiteFacts:
    """Return the row of one site."""
    filled = [(s, o) for s, o in zip(shares, objects, strict=True) if s > 0]
    share = [s for s, _ in filled] or [0.0]
    return SiteFacts(
        train=list(sides).count("train"),
        test=list(sides).count("test"),
        share=float(np.median(share)),
        lowest=min(share),
        highest=max(share),
        empty=len(shares) - len(filled),
        objects=float(np.mean([o.count for _, o in filled] or [0])),
        width=float(np.median([o.width for _, o in filled] or [0.0])),
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
