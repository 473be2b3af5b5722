"""What every case of a run has in common: channels, classes, size, and how it came to that size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from feda3i.core.resize import Aspect


@dataclass(frozen=True)
class Format:
    """The form of the cases that a network takes.

    Parameters
    ----------
    channels, classes
        Channels of an image and number of foreground classes.
    shape
        Size of a case in space, ``(height, width)`` or ``(depth, height, width)``.
    aspect
        How a picture of other proportions is brought to that size (``feda3i.core.resize``).

    The spacing of voxels is not here: it belongs to each case.

    >>> Format(3, 1, (64, 64)).dimensions
    2
    """

    channels: int
    classes: int
    shape: tuple[int, ...]
    aspect: Aspect = "squeeze"

    def to_dict(self) -> dict[str, Any]:
        """Return the format as plain values."""
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Format:
        """Return the format that ``to_dict`` gave."""
        return cls(**{**values, "shape": tuple(values["shape"])})

    @property
    def dimensions(self) -> int:
        """Return the number of dimensions in space."""
        return len(self.shape)
