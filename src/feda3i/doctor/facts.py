"""What the doctor keeps of a case: no pixels but the fingerprint."""

from __future__ import annotations

from dataclasses import dataclass

from feda3i.doctor.duplicates import Fingerprint
from feda3i.doctor.side_by_side import Objects
from feda3i.reading.problems import Level


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
