"""Read and write volumes with SimpleITK: NIfTI, NRRD, MetaImage and series of DICOM slices.

SimpleITK overlooks missing numbers, wrong checksums and voxel sizes of 0, and follows headers to
other files, so a file has to pass our own checks.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.format import by
from feda3i.errors import DataError
from feda3i.reading.file_list import check_bytes
from feda3i.reading.names import DICOM, split_extension
from feda3i.reading.problems import CaseError, reading

Floats = NDArray[np.float64]

MAX_VOXELS = 512 * 512 * 1024  # by the header of a volume
SHIFT = 0.5  # voxels by which a mask may lie beside its image
_NIFTI = np.dtype(
    {
        "names": ["size", "type", "bits", "spacing", "start", "magic"],
        "formats": ["<i4", "<i2", "<i2", "<8f4", "<f4", "S4"],
        "offsets": [0, 70, 72, 76, 108, 344],
        "itemsize": 352,
    }
)
_NIFTI_1 = 348  # bytes of its header
_FLOATS = {16: "f4", 64: "f8"}  # by the code of the type
_MOST_ELSE = 2**22  # bytes of a NIfTI file that are no numbers: header, extensions, filling
_META_BYTES = 2**16  # of a file, in which its header lies
_DEFLATED = b"1.2.840.10008.1.2.1.99"  # transfer syntax
_PIXEL_SPACING = ("0028|0030", "0018|1164")  # of a slice
_PLACE_CODES = ("qform_code", "sform_code")  # of NIfTI; 0: the header does not say
_NOT_FINITE = "found voxels that are not finite (NaN or infinite): correct the file"
_ALONE = threading.Lock()  # SimpleITK reading in several threads at a time has aborted a process


@dataclass(frozen=True)
class Volume:
    """Values ``(slice, row, column)``, spacing in this order in millimetres, and the geometry."""

    values: NDArray[np.float32]
    spacing: tuple[float, ...]  # empty if the file does not say
    image: Any  # of SimpleITK, with the order of axes of the file
    is_placed: bool  # whether the file says where its voxels lie

    @property
    def affine(self) -> Floats:
        """Return the matrix from voxels of the file to millimetres, as NIfTI has it (RAS)."""
        matrix = np.eye(4)
        matrix[:3, :3] = np.reshape(self.image.GetDirection(), (3, 3)) * self.image.GetSpacing()
        matrix[:3, 3] = self.image.GetOrigin()
        return np.diag([-1.0, -1.0, 1.0, 1.0]) @ matrix

    def gap(self, other: Volume) -> float:
        """Return how far apart the two put a corner of the volume, in sides of a voxel."""
        if not (self.is_placed and other.is_placed):
            return 0.0
        ends = np.array(np.meshgrid(*[(0, side - 1) for side in self.image.GetSize()]))
        corners = np.vstack([ends.reshape(3, -1), np.ones(8)])
        apart = np.linalg.norm(((self.affine - other.affine) @ corners)[:3], axis=0)
        return float(apart.max() / min(self.image.GetSpacing()))


def read_volume(places: Sequence[str], axis: int) -> Volume:
    """Return the volume in a file, or in the slices of a DICOM series."""
    with reading("corrupt volume"), _in_words():
        for place in places:
            _check_header(place)
        with _ALONE:
            reader, first = _open(places)
        given = _check_nifti(places[0], math.prod(first.GetSize()))
        with _ALONE:
            image = reader.Execute()
            values = np.asarray(simpleitk().GetArrayFromImage(image).T, np.float32)
        is_bare = len(places) > 1 and not any(map(first.HasMetaDataKey, _PIXEL_SPACING))
        codes = [first.GetMetaData(c) for c in _PLACE_CODES if first.HasMetaDataKey(c)]
    if not np.isfinite(values).all():
        raise CaseError("volume values", _NOT_FINITE)
    spacing = [
        side if math.isfinite(said) and said > 0 else said
        for side, said in zip(image.GetSpacing(), given or image.GetSpacing(), strict=True)
    ]
    return Volume(
        np.ascontiguousarray(values.transpose(_order(axis))),
        () if is_bare else tuple(spacing[a] for a in _order(axis)),
        image,
        is_placed=codes != ["0", "0"],
    )


def count_slices(places: Sequence[str], axis: int) -> int:
    """Return how many slices a volume has along an axis, from its header."""
    with reading("corrupt volume"), _in_words(), _ALONE:
        sides = list(_open(places)[1].GetSize())
        sides[2] *= len(places)
        return int(sides[axis])


def write_like(volume: Volume, mask: NDArray[np.uint8], axis: int) -> bytes:
    """Return a mask ``(slice, row, column)`` as packed NIfTI with the geometry of its image."""
    itk = simpleitk()
    made = itk.GetImageFromArray(np.ascontiguousarray(mask.transpose(np.argsort(_order(axis))).T))
    made.CopyInformation(volume.image)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mask.nii.gz"
        itk.WriteImage(made, str(path), True)
        return path.read_bytes()


def window_to_bytes(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Map the values between the 0.5 and 99.5 percentiles to 0..255.

    >>> window_to_bytes(np.array([0.0, 50.0, 100.0], np.float32)).tolist()
    [0, 128, 255]
    """
    low, high = (float(np.percentile(values, share)) for share in (0.5, 99.5))
    scale = 255.0 / (high - low) if high > low else 0.0
    scaled = (np.clip(values, low, max(high, low)) - low) * scale
    return np.asarray(np.floor(scaled + 0.5), np.uint8)


def check_beside(image: Volume, mask: Volume) -> None:
    """Raise ``CaseError`` if a mask has another size than its image, or lies elsewhere."""
    if mask.values.shape != image.values.shape:
        text = f"image {by(image.values.shape)}, mask {by(mask.values.shape)} voxels"
        raise CaseError("sizes differ", text)
    gap = image.gap(mask)
    if not gap <= SHIFT:
        ours, theirs = (
            "; ".join(" ".join(f"{value:.4g}" for value in row) for row in one.affine[:3])
            for one in (image, mask)
        )
        raise CaseError(
            "mask in another place",
            f"its header puts voxels up to {gap:.1f} voxels away from the image's: affine of the "
            f"image [{ours}], of the mask [{theirs}]: resample the mask to its image, or copy the "
            "image's header if the voxels do match",
        )


def check_spacing(spacing: Sequence[float]) -> None:
    """Raise ``CaseError`` for a voxel size with which no distance can be measured."""
    if not all(math.isfinite(side) and side > 0 for side in spacing):
        text = f"expected millimetres above 0, found {by(spacing)}: correct the file's header"
        raise CaseError("spacing", text)


def _check_header(place: str) -> None:
    """Raise ``CaseError`` if a header leads to another file, or to an unknown number of bytes."""
    check_bytes(os.path.getsize(place))
    with open(place, "rb") as file:
        start = file.read(_META_BYTES)
    ending = split_extension(place)[1]
    if ending in DICOM and _DEFLATED in start:
        text = "its data set is deflated, to an unknown size: convert the file first"
        raise CaseError("compressed DICOM", text)
    header, blank, _ = start.replace(b"\r\n", b"\n").partition(b"\n\n")
    named = re.search(rb"^data ?file:", header, re.MULTILINE | re.IGNORECASE)
    where = re.search(rb"^\s*ElementDataFile\s*=\s*(\S*)", start, re.MULTILINE)
    is_inside = {".nrrd": blank and not named, ".mha": where and where[1] == b"LOCAL"}
    if not is_inside.get(ending, True):
        text = "its numbers are in another file: save all in one (.nrrd, .mha or .nii.gz)"
        raise CaseError("format not read", text)


def _check_nifti(place: str, voxels: int) -> tuple[float, ...]:
    """Check the numbers of a NIfTI file, and return the voxel size that its header gives.

    SimpleITK puts zeros where numbers are missing or not finite, and 1 for a size of 0; reading a
    packed file to its end checks its sum.
    """
    if _reader_of(place) != "NiftiImageIO":
        return ()
    with open(place, "rb") as plain:
        is_packed = plain.read(2) == b"\x1f\x8b"
    with gzip.open(place) if is_packed else open(place, "rb") as file:
        start = file.read(_NIFTI.itemsize).ljust(_NIFTI.itemsize, b"\0")
        header = np.frombuffer(start, _NIFTI)[0]
        if header["size"] != _NIFTI_1:
            header = np.frombuffer(start, _NIFTI.newbyteorder())[0]
        if header["size"] != _NIFTI_1 or header["magic"] != b"n+1":
            text = "not a NIfTI-1 file: copy it again, or save it as NIfTI-1, NRRD or MetaImage"
            raise CaseError("corrupt volume", text)
        before = float(header["start"]) - _NIFTI.itemsize
        if not 0 <= before <= _MOST_ELSE:
            text = f"its numbers cannot begin at byte {header['start']:g}"
            raise CaseError("corrupt volume", text)
        file.read(int(before))
        need = voxels * int(header["bits"]) // 8
        numbers, rest = file.read(need), file.read(_MOST_ELSE)
    if len(numbers) < need or len(rest) == _MOST_ELSE:
        found = f"{len(numbers)}" if len(numbers) < need else "more"
        text = f"expected {need} bytes of numbers, found {found}: copy the file again"
        raise CaseError("corrupt volume", text)
    if kind := _FLOATS.get(int(header["type"])):
        order = header["size"].dtype.byteorder
        if not np.isfinite(np.frombuffer(numbers, f"{order}{kind}")).all():
            raise CaseError("volume values", _NOT_FINITE)
    return tuple(float(side) for side in header["spacing"][1:4])


def _open(places: Sequence[str]) -> tuple[Any, Any]:
    """Return the reader of a volume, and that of its only or first file, whose header is read."""
    itk = simpleitk()
    first = itk.ImageFileReader()
    first.SetImageIO(_reader_of(places[0]))
    first.SetFileName(places[0])
    first.SetOutputPixelType(itk.sitkFloat32)
    first.ReadImageInformation()
    if first.GetDimension() != 3 or min(first.GetSize()) < 1:
        found = by(first.GetSize()) or "none"
        raise CaseError("not a volume", f"expected three dimensions, found {found}")
    if first.GetNumberOfComponents() != 1:
        found = itk.GetPixelIDValueAsString(first.GetPixelID())
        raise CaseError("volume values", f"expected one number per voxel, found {found}")
    if math.prod((*first.GetSize(), len(places))) > MAX_VOXELS:
        text = f"{by(first.GetSize())}; at most {MAX_VOXELS} voxels are decoded"
        raise CaseError("volume too large", text)
    if len(places) == 1:
        return first, first
    reader = itk.ImageSeriesReader()
    reader.SetFileNames(_in_order(places))
    reader.SetOutputPixelType(itk.sitkFloat32)
    return reader, first


def _in_order(places: Sequence[str]) -> list[str]:
    """Return the slices of a series from the lowest to the highest along their normal."""
    itk, folder = simpleitk().ImageSeriesReader, os.path.dirname(places[0])
    found = itk.GetGDCMSeriesIDs(folder)
    if len(found) != 1:
        text = f"expected one series in a folder, found {len(found)}: one folder for each"
        raise CaseError("several series", text)
    ordered = {os.path.basename(name): name for name in itk.GetGDCMSeriesFileNames(folder)}
    wanted = [os.path.basename(place) for place in places]
    for name in wanted:
        if name not in ordered:
            raise CaseError("corrupt volume", f"{name} is no slice of the series: copy it again")
    return [path for name, path in ordered.items() if name in wanted]


def _reader_of(place: str) -> str:
    ending = split_extension(place)[1]
    known = {".nrrd": "NrrdImageIO", ".mha": "MetaImageIO", **dict.fromkeys(DICOM, "GDCMImageIO")}
    return known.get(ending, "NiftiImageIO")


def _order(axis: int) -> tuple[int, ...]:
    """Return the axes of a file in the order slice, row, column."""
    return (axis, *reversed([a for a in range(3) if a != axis]))


@contextmanager
def _in_words() -> Iterator[None]:
    """Turn an error of SimpleITK into its last line, without places in C++."""
    try:
        yield
    except RuntimeError as error:
        text = [line for line in str(error).splitlines() if line.strip()][-1]
        kind, words = "corrupt volume", re.sub(r"^.*[(]0x[0-9a-f]+[)]: ", "", text)
        words += ": copy the file again"
        if "orthonormal" in text:
            kind, words = "sheared volume", "its axes are not at right angles: resample it"
        raise CaseError(kind, words) from None


def simpleitk() -> Any:
    """Return SimpleITK, quiet; it is installed with the extra ``volumes``."""
    try:
        import SimpleITK
    except ModuleNotFoundError:
        text = "volumes and STAPLE need the package SimpleITK: pip install 'feda3i[volumes]'"
        raise DataError(text) from None
    itk: Any = SimpleITK
    itk.ProcessObject.SetGlobalWarningDisplay(False)
    return itk
