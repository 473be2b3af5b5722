"""Read DICOM images with DICOM-SEG masks, slice by slice or by series. Needs pydicom, highdicom."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError
from feda3i.reading.file_list import FileEntry, read_file
from feda3i.reading.limits import MAX_PIXELS, MAX_VOXELS
from feda3i.reading.names import DICOM, IMAGE_FOLDERS, MASK_FOLDERS, split_extension
from feda3i.reading.nifti import as_kept, check_spacing, window_to_bytes
from feda3i.reading.pairs import Pair
from feda3i.reading.places import place_of
from feda3i.reading.problems import CaseError, Problem, reading

if TYPE_CHECKING:
    from feda3i.reading.decode import RawCase
    from feda3i.reading.options import Options

_SEGMENTATION = "1.2.840.10008.5.1.4.1.1.66.4"
_DEFLATED = b"1.2.840.10008.1.2.1.99"  # transfer syntax
_META_BYTES = 4096
_CORRUPT = "corrupt DICOM"

Slices = dict[str, tuple[FileEntry, Any]]  # UID of an image -> its file and header
Drawn = dict[str, list[FileEntry]]  # UID of an image -> the segmentations that refer to it


def find_dicom(
    entries: Sequence[FileEntry], volumes: bool = False
) -> tuple[list[Pair], list[Problem]]:
    """Pair DICOM images with the DICOM-SEG files that refer to them, wherever these are.

    Folders above a file name its source and split, as for pictures; ``images`` and ``masks`` among
    them are ignored. All slices of a series belong to one group of the split.
    """
    images: Slices = {}
    masks: Drawn = defaultdict(list)
    problems: list[Problem] = []
    drawn: list[tuple[FileEntry, list[str]]] = []
    for entry in entries:
        if split_extension(entry.name)[1] not in DICOM:
            continue
        try:
            header = _parse(read_file(entry.place), pixels=False)
            if header.SOPClassUID == _SEGMENTATION:
                with reading(_CORRUPT):
                    drawn.append((entry, _referred(header)))
            else:
                images[header.SOPInstanceUID] = (entry, header)
        except CaseError as error:
            problems.append(error.problem(entry.name))
    for entry, uids in drawn:
        known = [uid for uid in uids if uid in images]
        for uid in known:
            masks[uid].append(entry)
        if not known:
            text = "none of the images that it refers to is here"
            problems.append(Problem("error", "image missing", entry.name, text))
    for uid in images.keys() - masks.keys() if not volumes else ():
        text = "no DICOM-SEG file refers to this image"
        problems.append(Problem("note", "image without mask", images[uid][0].name, text))
    problems += _bare_series(images, masks) if volumes else []
    pairs = _volume_pairs(images, masks) if volumes else _slice_pairs(images, masks)
    return sorted(pairs, key=lambda pair: pair.name), problems


def read_dicom(images: list[bytes], masks: list[bytes], options: Options) -> Iterator[RawCase]:
    """Yield one case: a single image, or the volume that several slices make up."""
    from feda3i.reading.decode import RawCase

    sets = [_parse(data) for data in images]
    uids = [s.SOPInstanceUID for s in sets]
    labels = np.maximum.reduce([_segments(data, uids, len(options.classes)) for data in masks])
    planes = [_pixels(s, options) for s in sets]
    if len({plane.shape for plane in planes}) > 1:
        raise CaseError("sizes differ", "the slices of the series have several sizes")
    if labels.shape[1:] != planes[0].shape[:2]:
        raise CaseError("sizes differ", f"image {planes[0].shape[:2]}, mask {labels.shape[1:]}")
    with reading(_CORRUPT):
        spacing = tuple(float(v) for v in getattr(sets[0], "PixelSpacing", None) or ())
    check_spacing(spacing)
    if not options.whole:
        yield RawCase(planes[0], labels[0], spacing=spacing)
        return
    places = [_place(s) for s in sets]
    step = abs(places[-1] - places[0]) / (len(places) - 1) if len(places) > 1 else 0.0
    full = (step, *spacing) if spacing and step else ()
    yield RawCase(np.stack(planes), labels, spacing=full)


def _bare_series(images: Slices, masks: Drawn) -> list[Problem]:
    """Return a finding for every image of the series that no segmentation refers to."""
    drawn = {str(images[uid][1].SeriesInstanceUID) for uid in masks}
    text = "no DICOM-SEG file refers to an image of this series"
    return [
        Problem("note", "series without mask", entry.name, text)
        for entry, header in images.values()
        if str(header.SeriesInstanceUID) not in drawn
    ]


def _slice_pairs(images: Slices, masks: Drawn) -> list[Pair]:
    pairs = []
    for uid, files in masks.items():
        entry, header = images[uid]
        pairs.append(_pair((entry,), tuple(files), str(header.SeriesInstanceUID)))
    return pairs


def _volume_pairs(images: Slices, masks: Drawn) -> list[Pair]:
    series: dict[str, list[str]] = defaultdict(list)
    for uid, (_, header) in images.items():
        series[str(header.SeriesInstanceUID)].append(uid)
    pairs = []
    for name, uids in series.items():
        ordered = sorted(uids, key=lambda uid: _place(images[uid][1]))
        files = dict.fromkeys(file for uid in ordered for file in masks.get(uid, ()))
        if files:
            pairs.append(_pair(tuple(images[uid][0] for uid in ordered), tuple(files), name))
    return pairs


def _pair(images: tuple[FileEntry, ...], masks: tuple[FileEntry, ...], group: str) -> Pair:
    stem, _ = split_extension(images[0].name)
    folders = stem.split("/")[:-1]
    branch = "/".join(f for f in folders if f.lower() not in IMAGE_FOLDERS | MASK_FOLDERS)
    source, split = place_of(branch)
    return Pair(stem, images, masks, source, "", split, group, "dicom")


def _parse(data: bytes, pixels: bool = True) -> Any:
    try:
        import pydicom
    except ModuleNotFoundError:
        raise DataError(
            "DICOM files need pydicom and highdicom: pip install 'feda3i[dicom]'"
        ) from None
    if _DEFLATED in data[:_META_BYTES]:
        text = "its data set is deflated, to an unknown size: convert the file first"
        raise CaseError("compressed DICOM", text)
    with reading(_CORRUPT):
        found = pydicom.dcmread(io.BytesIO(data), stop_before_pixels=not pixels)
        frames = int(found.get("NumberOfFrames", 1) or 1)
        size = int(found.Rows) * int(found.Columns)
        is_image = found.SOPClassUID != _SEGMENTATION
        if not found.SOPInstanceUID or (is_image and not found.SeriesInstanceUID):
            raise CaseError(_CORRUPT, "expected a UID of the image and of its series, found none")
    if size > MAX_PIXELS or size * frames > MAX_VOXELS:
        raise CaseError("image too large", f"{size} pixels; at most {MAX_PIXELS} are decoded")
    if is_image and frames > 1:
        raise CaseError("several frames", "expected one frame per image file: split the frames")
    return found


def _referred(header: Any) -> list[str]:
    """Return the images that the frames of a segmentation are drawn on."""
    uids = []
    for frame in getattr(header, "PerFrameFunctionalGroupsSequence", []):
        for derived in getattr(frame, "DerivationImageSequence", []):
            uids += [str(s.ReferencedSOPInstanceUID) for s in derived.SourceImageSequence]
    return list(dict.fromkeys(uids))


def _segments(data: bytes, uids: list[str], classes: int) -> NDArray[np.uint8]:
    """Return ``(image, row, column)``: the segment number, or 1 if there is one class only."""
    import highdicom

    with reading(_CORRUPT, "the segmentation cannot be read"):
        found = highdicom.seg.segread(io.BytesIO(data))
        pixels = found.get_pixels_by_source_instance(
            uids, assert_missing_frames_are_empty=True, ignore_spatial_locations=True
        )
    count = pixels.shape[-1]
    if classes > 1 and count > classes:
        raise CaseError("mask values", f"expected {classes} segments at most, found {count}")
    numbers = np.arange(1, count + 1, dtype=np.uint8) if classes > 1 else np.uint8(1)
    return np.asarray(((pixels > 0) * numbers).max(axis=-1), np.uint8)


def _pixels(image: Any, options: Options) -> NDArray[Any]:
    """Return ``(row, column, channel)`` with the window applied, bright meaning high."""
    from pydicom.pixels.processing import apply_modality_lut
    from pydicom.pixels.utils import pixel_array

    with reading(_CORRUPT, "the pixels cannot be read"):
        values = pixel_array(image)
        is_inverted = image.PhotometricInterpretation == "MONOCHROME1"
        window = _window(image)
        if values.ndim == 2:
            values = apply_modality_lut(values, image)
    if values.ndim == 3:
        colour = np.asarray(values, np.uint8)
        luminance = colour @ np.array([0.299, 0.587, 0.114])
        return colour if options.channels != 1 else np.rint(luminance).astype(np.uint8)[..., None]
    if not np.isfinite(values).all() or not np.isfinite(window or 0).all():
        raise CaseError("image values", "found values or a window that are not finite: correct it")
    if options.keep_values:
        grey = as_kept(-values if is_inverted else values)
    else:
        grey = window_to_bytes(np.asarray(values, np.float32), window)
        grey = 255 - grey if is_inverted else grey
    return np.repeat(grey[..., None], 3 if options.channels == 3 else 1, axis=-1)


def _window(image: Any) -> tuple[float, float] | None:
    """Return the window that the file asks for, or the whole range of an 8-bit image."""
    centre, width = image.get("WindowCenter"), image.get("WindowWidth")
    if centre is not None and width is not None:
        middle = float(np.atleast_1d(centre)[0])
        half = float(np.atleast_1d(width)[0]) / 2
        return (middle - half, middle + half) if half > 0 else None
    return (0.0, 255.0) if int(image.BitsStored) == 8 else None


def _place(header: Any) -> float:
    """Return the position of a slice along the normal of its plane, in millimetres."""
    try:
        turn = np.array(header.ImageOrientationPatient, float)
        normal = np.cross(turn[:3], turn[3:])
        return float(normal @ np.array(header.ImagePositionPatient, float))
    except (AttributeError, TypeError, ValueError):
        return float(getattr(header, "InstanceNumber", 0) or 0)
