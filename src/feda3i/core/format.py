"""What every case of a run has in common: channels, classes, size, and how it came to that size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from feda3i.core.normalise import NONE, Normalise
from feda3i.errors import DataError


@dataclass(frozen=True)
class Format:
    """The form of the cases that a network takes; the spacing of a case belongs to the case.

    >>> Format(3, 1, (64, 64)).dimensions
    2
    """

    channels: int  # of an image
    classes: int  # of foreground
    shape: tuple[int, ...]
    """Size of what the network takes, ``(height, width)`` or ``(depth, height, width)``: of a case,
    or of a patch."""
    normalise: Normalise = NONE  # how values become what the network sees
    patches: bool = False
    """Whether the network was trained on patches: then cases keep their own sizes, and a window
    slides over them."""
    overlap: float = 0.5  # share of a window that the next one covers again
    size: int | None = None
    """Side that cases are brought to before patches are taken; ``None``: their own."""
    spacing: tuple[float, ...] | None = None
    """Millimetres along each side of a voxel that cases are resampled to; ``None``: as they are."""
    axis: int = 2  # of a NIfTI file along which slices lie
    volumes: str | None = None  # ``whole`` or ``slices`` if cases are read from files of volumes
    keeps_values: bool = False  # whether values are as in the files, or scaled to bytes

    @property
    def dimensions(self) -> int:
        """Return the number of dimensions in space."""
        return len(self.shape)

    def sides(
        self, shape: Sequence[int], spacing: Sequence[float] | None = None
    ) -> tuple[int, ...]:
        """Return the size that a case of this shape and spacing is brought to before it is shown.

        >>> form = Format(1, 1, (32, 32, 32), patches=True, spacing=(1, 1, 1))
        >>> form.sides((9, 40, 40), (3, 1, 1))
        (27, 40, 40)
        """
        if not self.patches:
            return self.shape
        if self.size is not None:
            return (self.size,) * len(shape)
        if self.spacing is None:
            return tuple(shape)
        if spacing is None:
            known = f"the model was trained on voxels of {by(self.spacing)} mm (data.spacing)"
            raise DataError(f"{known}; the size of this image's voxels is not known")
        return sides_at(shape, spacing, self.spacing)


def sides_at(
    shape: Sequence[int], spacing: Sequence[float], wanted: Sequence[float]
) -> tuple[int, ...]:
    """Return how many voxels of the wanted size fill the space of a case, along each side."""
    sides = zip(shape, spacing, wanted, strict=True)
    return tuple(max(1, round(n * a / b)) for n, a, b in sides)


def by(sides: Iterable[float]) -> str:
    """Return sizes as in ``32 x 48``."""
    return " x ".join(str(side) if isinstance(side, int) else f"{side:g}" for side in sides)
