"""What a volume's header says of the place of its voxels, without reading them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.reading.archive import FileEntry, Reader, list_entries
from feda3i.reading.csv_table import is_table
from feda3i.reading.names import DICOM, NIFTI, split_extension
from feda3i.reading.nifti import volume_header
from feda3i.reading.prepared import is_prepared
from feda3i.reading.problems import reading

_START = 2**16  # bytes of a file that hold its header, packed or not


@dataclass(frozen=True)
class Geometry:
    """The size of a file's voxels and where they lie.

    Parameters
    ----------
    shape, spacing
        Along the axes of the file's array.
    affine
        From voxels to millimetres; ``None`` if the file does not say.
    unit
        Of lengths: ``mm``, ``meter``, ``micron`` or ``unknown``.
    """

    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    affine: NDArray[np.float64] | None
    unit: str

    def gap(self, other: Geometry) -> float:
        """Return how far apart the two put a corner of the volume, in sides of a voxel."""
        if self.affine is None or other.affine is None:
            return 0.0
        ends = np.array(np.meshgrid(*[(0, side - 1) for side in self.shape])).reshape(3, -1)
        corners = np.vstack([ends, np.ones(ends.shape[1])])
        apart = np.linalg.norm(((self.affine - other.affine) @ corners)[:3], axis=0)
        return float(apart.max() / min(self.spacing))


def geometry_of(entry: FileEntry) -> Geometry:
    """Return the geometry of a NIfTI file, from its first bytes."""
    with Reader() as reader, reading("corrupt volume"), reader.open(entry) as file:
        header: Any = volume_header(file.read(_START))
        is_placed = int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0
        affine = np.asarray(header.get_best_affine(), np.float64) if is_placed else None
        return Geometry(
            tuple(int(side) for side in header.get_data_shape()),
            tuple(float(side) for side in np.atleast_1d(header["pixdim"])[1:4]),
            affine if affine is not None and np.isfinite(affine).all() else None,
            str(header.get_xyzt_units()[0]),
        )


def holds_volumes(root: Path) -> bool:
    """Return whether there is a NIfTI or DICOM file in a folder (not a prepared one) or table."""
    if is_table(root):
        text = root.read_bytes().lower()
        return any(ending.encode() in text for ending in (*NIFTI, *DICOM))
    if not root.is_dir() or is_prepared(root):
        return False
    return any(
        split_extension(entry.name)[1] in (*NIFTI, *DICOM) for entry in list_entries(root)[0]
    )
