"""From the files of a pair to cases of the wanted size: the one path that every reader takes."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from feda3i.core.cases import Images, Masks
from feda3i.core.format import by, sides_at
from feda3i.core.resize import resize_image, resize_mask, resize_spacing
from feda3i.reading.file_list import read_file
from feda3i.reading.match import Pair
from feda3i.reading.names import DICOM, split_extension
from feda3i.reading.options import Options
from feda3i.reading.picture import Note, as_kept, binarise, exact_classes, read_image, read_mask
from feda3i.reading.problems import CaseError
from feda3i.reading.volume import check_beside, check_spacing, read_volume, window_to_bytes


@dataclass(frozen=True)
class RawCase:
    """One case decoded; its sizes of pixels are empty if unknown."""

    image: Images  # (*space, channel)
    mask: Masks  # (*space)
    shape: tuple[int, ...] = ()  # before resizing
    spacing: tuple[float, ...] = ()  # millimetres per pixel
    notes: tuple[Note, ...] = ()
    zoom: tuple[float, ...] = ()  # pixels of the original per pixel


def decode_pair(pair: Pair, options: Options) -> Iterator[RawCase]:
    """Yield the case, or the slices, that the files of a pair hold, at the wanted size."""
    images, masks = ([file.place for file in files] for files in (pair.images, pair.masks))
    if pair.kind == "series":
        channels = [read_volumes(images, masks, options)]
    elif len(images) == 1 and options.channels in (None, 1, 3):
        channels = [_read_one(pair.kind, images[0], masks, options)]
    elif options.channels in (None, len(images)):
        one = replace(options, channels=1)
        channels = [_read_one(pair.kind, image, masks, one) for image in images]
    else:
        text = f"expected {options.channels} files of one channel each, found {len(images)}"
        raise CaseError("channels differ", text)
    for parts in zip(*channels, strict=True):
        pixels = np.concatenate([part.image for part in parts], axis=-1)
        notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
        yield resize_case(replace(parts[0], image=pixels, notes=notes), options)


def _read_one(kind: str, image: str, masks: list[str], options: Options) -> Iterator[RawCase]:
    if kind == "volume":
        return read_volumes([image], masks, options)
    return iter([read_pictures(read_file(image), [read_file(mask) for mask in masks], options)])


def read_pictures(
    image: bytes, masks: list[bytes], options: Options, upright: bool = True
) -> RawCase:
    """Decode an image and its masks; several masks are merged (the higher class wins).

    Pictures are turned upright by their EXIF tag, unless only the stored one is of its mask's size.
    """
    picture = read_image(
        image, channels=options.channels, upright=upright, keep=options.keep_values
    )
    drawn = [read_mask(m, classes=len(options.classes), upright=upright) for m in masks]
    shape = picture.pixels.shape[:2]
    other = next((mask.pixels.shape for mask in drawn if mask.pixels.shape != shape), None)
    if other is not None:
        if any(kind == "EXIF rotation" for kind, _ in picture.notes):
            with contextlib.suppress(CaseError):
                flat = read_pictures(image, masks, options, upright=False)
                note = ("EXIF rotation", "ignored: the mask fits the image as stored")
                return replace(flat, notes=(*flat.notes, note))
        raise CaseError("sizes differ", f"image {by(shape)}, mask {by(other)} (height x width)")
    merged = np.maximum.reduce([mask.pixels for mask in drawn])
    notes = [*picture.notes, *(note for mask in drawn for note in mask.notes)]
    return RawCase(picture.pixels, merged, shape=shape, notes=tuple(dict.fromkeys(notes)))


def read_volumes(
    images: Sequence[str], masks: Sequence[str], options: Options
) -> Iterator[RawCase]:
    """Yield one case per slice, or one per volume; axes are ``(slice, row, column)``.

    ``images`` is one file or the slices of a DICOM series. Rows run along the second remaining axis
    of the file and columns along the first, as viewers show them; nothing is resampled.
    """
    if any(split_extension(mask)[1] in DICOM for mask in masks):
        text = "masks in DICOM (DICOM-SEG) are not read: convert them to NIfTI or NRRD first"
        raise CaseError("mask format", text)
    image = read_volume(images, options.axis)
    check_spacing(image.spacing if options.whole else image.spacing[1:])
    drawn = [read_volume([mask], options.axis) for mask in masks]
    notes: list[Note] = []
    for mask in drawn:
        check_beside(image, mask)
        if image.is_placed and not mask.is_placed:
            text = "its header does not say where it lies; it is taken to match its image"
            notes.append(("mask without geometry", text))
    count = len(options.classes)
    labels = np.maximum.reduce(
        [
            binarise(mask.values, notes) if count == 1 else exact_classes(mask.values, count)
            for mask in drawn
        ]
    )
    kept = as_kept(image.values) if options.keep_values else window_to_bytes(image.values)
    pixels = np.repeat(kept[..., None], 3 if options.channels == 3 else 1, axis=-1)
    whole = RawCase(pixels, labels, spacing=image.spacing, notes=tuple(dict.fromkeys(notes)))
    if options.whole:
        yield whole
        return
    for plane, one in zip(pixels, labels, strict=True):
        yield replace(whole, image=plane, mask=one, spacing=image.spacing[1:])


def resize_case(case: RawCase, options: Options) -> RawCase:
    """Return the case at the size that the options ask for."""
    shape = case.mask.shape
    if options.size is not None:
        size: tuple[int, ...] = (options.size,) * len(shape)
    elif options.spacing is None:
        return replace(case, shape=shape)
    elif len(options.spacing) == len(case.spacing) == len(shape):
        size = sides_at(shape, case.spacing, options.spacing)
    else:
        found = by(case.spacing) or "none"
        text = f"expected {len(options.spacing)} sizes of pixels in mm (data.spacing), found"
        raise CaseError("spacing", f"{text} {found}: leave it out, or correct the file's header")
    image = resize_image(case.image, size)
    mask = resize_mask(case.mask, size)
    notes = case.notes
    if case.mask.any() and not mask.any():
        notes = (*notes, ("lesion lost", f"nothing is left of it at {by(size)} pixels"))
    spacing = resize_spacing(case.spacing, shape, size) if case.spacing else ()
    zoom = resize_spacing(case.zoom or (1.0,) * len(shape), shape, size)
    return RawCase(image, mask, shape, spacing, notes, zoom)
