"""Read NIfTI volumes (``.nii``, ``.nii.gz``), whole or by slices, or a header. Needs nibabel."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError
from feda3i.reading.file_list import FileEntry
from feda3i.reading.limits import MAX_FILE_BYTES, MAX_VOXELS
from feda3i.reading.picture import Note, binarise, exact_classes
from feda3i.reading.problems import CaseError, by, reading

if TYPE_CHECKING:
    from feda3i.reading.decode import RawCase
    from feda3i.reading.options import Options

_HEADER_BYTES = 4096
_START = 2**16  # bytes of a file that hold its header, packed or not
_GZIP = b"\x1f\x8b"


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


def read_nifti(image: bytes, masks: list[bytes], options: Options) -> Iterator[RawCase]:
    """Yield one case per slice, or one per volume; axes are ``(slice, row, column)``.

    Rows run along the array's second remaining axis and columns along the first, so that pictures
    lie as viewers show them; nothing is turned or resampled by the orientation in the header.
    """
    from feda3i.reading.decode import RawCase

    values, spacing = _load(image, options.axis)
    drawn = [_load(mask, options.axis)[0] for mask in masks]
    for other in drawn:
        if other.shape != values.shape:
            raise CaseError("sizes differ", f"image {values.shape}, mask {other.shape}")
    notes: list[Note] = []
    count = len(options.classes)
    labels = np.maximum.reduce(
        [binarise(d, notes) if count == 1 else exact_classes(d, count) for d in drawn]
    )
    kept = as_kept(values) if options.keep_values else window_to_bytes(values, None)
    pixels = kept[..., None]
    pixels = np.repeat(pixels, 3, axis=-1) if options.channels == 3 else pixels
    check_spacing(spacing if options.whole else spacing[1:])
    if options.whole:
        yield RawCase(pixels, labels, spacing=spacing, notes=tuple(notes))
        return
    digits = len(str(len(pixels) - 1))
    for number, (plane, mask) in enumerate(zip(pixels, labels, strict=True)):
        yield RawCase(plane, mask, f"{number:0{digits}d}", spacing=spacing[1:], notes=tuple(notes))


def read_volume(data: bytes, axis: int) -> tuple[NDArray[np.float32], tuple[float, ...]]:
    """Return the values of one file ``(slice, row, column)``, and its spacing in millimetres."""
    values, spacing = _load(data, axis)
    check_spacing(spacing)
    return values, spacing


def write_like(data: bytes, mask: NDArray[np.uint8], axis: int) -> bytes:
    """Return a mask ``(slice, row, column)`` as a packed file with the geometry of its image."""
    image, _ = _open(data)
    order = (axis, *reversed([a for a in range(3) if a != axis]))
    turned = np.ascontiguousarray(mask.transpose(np.argsort(order)))
    made = type(image)(turned, image.affine, image.header)
    made.set_data_dtype(np.uint8)
    made.header.set_slope_inter(1, 0)
    # No time in the packed bytes: the same mask is the same file.
    return gzip.compress(made.to_bytes(), mtime=0)


def count_slices(entry: FileEntry, axis: int) -> int:
    """Return how many slices a file holds along an axis, from its first bytes."""
    with reading("corrupt volume"):
        shape = _first_header(entry).get_data_shape()
        if len(shape) != 3 or min(shape) < 1:
            raise CaseError("not a volume", f"expected three dimensions, found {len(shape)}")
        return int(shape[axis])


def geometry_of(entry: FileEntry) -> Geometry:
    """Return the geometry of a NIfTI file, from its first bytes."""
    with reading("corrupt volume"):
        header = _first_header(entry)
        is_placed = int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0
        affine = np.asarray(header.get_best_affine(), np.float64) if is_placed else None
        return Geometry(
            tuple(int(side) for side in header.get_data_shape()),
            tuple(float(side) for side in np.atleast_1d(header["pixdim"])[1:4]),
            affine if affine is not None and np.isfinite(affine).all() else None,
            str(header.get_xyzt_units()[0]),
        )


def as_kept(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as ``int16`` if that holds all of them exactly, else as ``float32``.

    >>> as_kept(np.array([-1000.0, 3000.0])).dtype, as_kept(np.array([0.5])).dtype
    (dtype('int16'), dtype('float32'))
    """
    if values.dtype.kind == "f" and (values != np.rint(values)).any():
        return np.asarray(values, np.float32)
    fits = values.size == 0 or (values.min() >= -(2**15) and values.max() < 2**15)
    return values.astype(np.int16 if fits else np.float32)


def window_to_bytes(
    values: NDArray[np.float32], window: tuple[float, float] | None
) -> NDArray[np.uint8]:
    """Map a window of values to 0..255; without one the 0.5 and 99.5 percentiles.

    >>> window_to_bytes(np.array([-100.0, 0.0, 50.0, 200.0], np.float32), (0.0, 100.0)).tolist()
    [0, 0, 128, 255]
    """
    low, high = window or (float(np.percentile(values, 0.5)), float(np.percentile(values, 99.5)))
    scale = 255.0 / (high - low) if high > low else 0.0
    scaled = (np.clip(values, low, max(high, low)) - low) * scale
    return np.asarray(np.floor(scaled + 0.5), np.uint8)


def check_spacing(spacing: tuple[float, ...]) -> None:
    """Raise ``CaseError`` for a voxel size with which no distance can be measured.

    >>> check_spacing((0.8, 0.8))
    """
    if not all(math.isfinite(side) and side > 0 for side in spacing):
        text = f"expected millimetres above 0, found {by(spacing)}: correct the file's header"
        raise CaseError("spacing", text)


def _load(data: bytes, axis: int) -> tuple[NDArray[np.float32], tuple[float, ...]]:
    """Return values ``(slice, row, column)`` and the spacing in the same order, in millimetres."""
    with reading("corrupt volume"):
        image, spacing = _open(data)
        kind = image.header.get_data_dtype().kind
        if kind not in "biuf":
            found = image.header.get_value_label("datatype")
            raise CaseError("volume values", f"expected one number per voxel, found {found}")
        values = np.asarray(image.dataobj, np.float32)
    if not np.isfinite(values).all():
        raise CaseError(
            "volume values",
            "found voxels that are not finite (NaN or infinite): correct the file",
        )
    order = (axis, *reversed([a for a in range(3) if a != axis]))
    return np.ascontiguousarray(values.transpose(order)), tuple(spacing[a] for a in order)


def _open(data: bytes) -> tuple[Any, list[float]]:
    """Return the volume, its numbers not yet read, and the spacing along its axes."""
    kind, header = _header(data)
    packed = data[:2] == _GZIP
    shape = header.get_data_shape()
    if len(shape) != 3 or min(shape) < 1:
        found = by(shape) or "none"
        raise CaseError("not a volume", f"expected three dimensions, found {found}")
    if np.prod(shape, dtype=float) > MAX_VOXELS:
        raise CaseError("volume too large", f"{shape}; at most {MAX_VOXELS} voxels are decoded")
    offset = int(header["vox_offset"])
    if not 0 <= offset <= MAX_FILE_BYTES:
        raise CaseError("corrupt volume", f"its numbers cannot begin at byte {offset}")
    # The header says how many bytes there are, so a bomb is never inflated beyond that.
    need = offset + int(np.prod(shape)) * header.get_data_dtype().itemsize
    # Read before nibabel corrects the header: it silently makes negative spacing positive.
    spacing = [float(side) for side in np.atleast_1d(header["pixdim"])[1:4]]
    return kind.from_bytes(_inflate(data, need) if packed else data), spacing


def _first_header(entry: FileEntry) -> Any:
    """Return nibabel's header of a file, as it is and uncorrected."""
    with open(entry.place, "rb") as file:
        return _header(file.read(_START))[1]


def _header(data: bytes) -> tuple[Any, Any]:
    """Return the kind of file and its header, from its first bytes."""
    try:
        import nibabel
    except ModuleNotFoundError:
        raise DataError(
            "NIfTI files need the package nibabel: pip install 'feda3i[nifti]'"
        ) from None
    start = data[:_HEADER_BYTES]
    if data[:2] == _GZIP:
        start = zlib.decompressobj(wbits=31).decompress(data, _HEADER_BYTES)
    # The first number is the header's own length, 540 in version 2 of the format.
    is_new = 540 in (int.from_bytes(start[:4], "little"), int.from_bytes(start[:4], "big"))
    kind: Any = nibabel.Nifti2Image if is_new else nibabel.Nifti1Image
    return kind, kind.header_class(start[: 540 if is_new else 348], check=False)


def _inflate(data: bytes, need: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(need)
