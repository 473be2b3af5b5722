"""From the files of a pair to cases of the wanted size: the one path that every reader takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from feda3i.core.cases import Images, Masks
from feda3i.core.format import sides_at
from feda3i.core.resize import ASPECTS, Aspect, resize_image, resize_mask, resize_spacing
from feda3i.errors import RecipeError
from feda3i.reading.pairs import Pair
from feda3i.reading.picture import Decoded, Note, read_image, read_mask
from feda3i.reading.problems import CaseError, by

MIN_SIZE, MAX_SIZE = 16, 4096  # of cases that a network is trained on, in pixels
DEFAULT_CLASSES = ("lesion",)


@dataclass(frozen=True)
class Options:
    """What to make of the files; written into the manifest."""

    size: int | None = 256
    """Side in pixels (voxels) of every case; ``None`` keeps the size of the files."""
    aspect: Aspect = "squeeze"
    """What to do with pictures that are not square: ``squeeze``, ``crop`` or ``pad``."""
    channels: int | None = None
    """1 (grey), 3 (colour), the number of files where each holds a channel, or ``None``: colour if
    any image has it."""
    classes: tuple[str, ...] = DEFAULT_CLASSES
    """Names of the foreground classes; mask value k is ``classes[k - 1]``. Empty: as a
    ``dataset.json`` says, else ``lesion``."""
    bits: int = 16  # bits in use in 16-bit pictures
    keep_empty: bool = True  # keep cases whose mask has no foreground
    volumes: bool = False  # keep NIfTI and DICOM volumes whole instead of cutting them into slices
    axis: int = 2  # axis of a NIfTI array along which the slices lie
    window: tuple[float, float] | None = None
    """Lowest and highest value shown, for NIfTI and DICOM; ``None``: the file's own window, else
    the 0.5 and 99.5 percentiles of the volume."""
    keep_values: bool = False
    """Keep the values of NIfTI, DICOM and 16-bit pictures (``int16`` or ``float32``) instead of
    scaling them to bytes."""
    spacing: tuple[float, ...] | None = None
    """Millimetres along each side of a pixel (slice, row, column) that cases are resampled to;
    ``None``: as they are."""
    in_place: bool = False
    """Read NIfTI and DICOM where they lie; without it they have to be prepared first."""

    def __post_init__(self) -> None:
        wrong = {
            f"size (1 to {MAX_SIZE} pixels)": (
                self.size is not None and not 1 <= self.size <= MAX_SIZE
            ),
            f"aspect ({', '.join(ASPECTS)})": self.aspect not in ASPECTS,
            "channels (1 to 64)": self.channels is not None and not 1 <= self.channels <= 64,
            "classes (1 to 255 names)": len(self.classes) > 255,
            "bits (9 to 16)": not 9 <= self.bits <= 16,
            "axis (0, 1 or 2)": self.axis not in (0, 1, 2),
            "window (low, high)": (
                self.window is not None
                and not -math.inf < self.window[0] < self.window[1] < math.inf
            ),
            "spacing (2 or 3 numbers of millimetres above 0)": (
                self.spacing is not None
                and not (len(self.spacing) in (2, 3) and all(0 < s < 1e6 for s in self.spacing))
            ),
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise RecipeError(f"expected {name}, found {getattr(self, name.split()[0])!r}")
        if self.spacing is not None and self.size is not None:
            raise RecipeError(
                f"expected a size in pixels or a spacing in millimetres, found both: size "
                f"{self.size} and spacing {list(self.spacing)}"
            )

    def record(self) -> dict[str, Any]:
        """Return the options as JSON values; rare ones only where set, so that hashes stay."""
        rare = {"keep_values": False, "spacing": None, "in_place": False}
        return {
            k: list(v) if isinstance(v, tuple) else v
            for k, v in asdict(self).items()
            if k not in rare or v != rare[k]
        }


def check_size(size: int | None) -> None:
    """Raise ``RecipeError`` for a size that no network here can be trained at.

    >>> check_size(64)
    """
    if size is not None and not MIN_SIZE <= size <= MAX_SIZE:
        raise RecipeError(f"expected a size from {MIN_SIZE} to {MAX_SIZE} pixels, found {size}")


@dataclass(frozen=True)
class RawCase:
    """One case decoded: image ``(*space, channel)``, mask ``(*space)`` of ``uint8``.

    ``part`` tells the slices of one volume apart; ``shape`` is the size before resizing;
    ``spacing`` is in millimetres per pixel, ``zoom`` in pixels of the original per pixel, both
    empty if unknown.
    """

    image: Images
    mask: Masks
    part: str = ""
    shape: tuple[int, ...] = ()
    spacing: tuple[float, ...] = ()
    notes: tuple[Note, ...] = ()
    zoom: tuple[float, ...] = ()


def decode_pair(
    pair: Pair, images: list[bytes], masks: list[bytes], options: Options
) -> Iterator[RawCase]:
    """Yield the case, or the slices, that the bytes of a pair hold, at the wanted size."""
    if pair.kind == "dicom":
        from feda3i.reading.dicom import read_dicom

        found = read_dicom(images, masks, options)
    elif len(images) == 1 and options.channels in (None, 1, 3):
        found = _read_one(pair.kind, images[0], masks, options)
    else:
        found = _read_channels(pair.kind, images, masks, options)
    for case in found:
        if options.keep_empty or case.mask.any():
            yield resize_case(case, options)


def _read_one(kind: str, image: bytes, masks: list[bytes], options: Options) -> Iterator[RawCase]:
    if kind == "nifti":
        from feda3i.reading.nifti import read_nifti

        return read_nifti(image, masks, options)
    return iter([read_pictures(image, masks, options)])


def _read_channels(
    kind: str, images: list[bytes], masks: list[bytes], options: Options
) -> Iterator[RawCase]:
    """Yield cases whose channels are separate files, all grey and of one size."""
    if options.channels not in (None, len(images)):
        text = f"expected {options.channels} files of one channel each, found {len(images)}"
        raise CaseError("channels differ", text)
    one = replace(options, channels=1)
    for parts in zip(*(_read_one(kind, image, masks, one) for image in images), strict=True):
        pixels = np.concatenate([part.image for part in parts], axis=-1)
        notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
        yield replace(parts[0], image=pixels, notes=notes)


def read_pictures(image: bytes, masks: list[bytes], options: Options) -> RawCase:
    """Decode an image and its masks; several masks are merged (the higher class wins)."""

    def read(upright: bool) -> tuple[Decoded, list[Decoded]]:
        return (
            read_image(
                image,
                channels=options.channels,
                bits=options.bits,
                upright=upright,
                keep=options.keep_values,
            ),
            [read_mask(m, classes=len(options.classes), upright=upright) for m in masks],
        )

    picture, drawn = read(upright=True)
    turned = any(kind == "EXIF rotation" for kind, _ in picture.notes)
    if turned and drawn[0].pixels.shape != picture.pixels.shape[:2]:
        flat, flat_drawn = read(upright=False)
        if flat_drawn[0].pixels.shape == flat.pixels.shape[:2]:
            note = ("EXIF rotation", "ignored: the mask fits the image as stored")
            picture, drawn = replace(flat, notes=(*flat.notes, note)), flat_drawn
    shape = picture.pixels.shape[:2]
    for mask in drawn:
        if mask.pixels.shape != shape:
            raise CaseError(
                "sizes differ",
                f"image {by(shape)}, mask {by(mask.pixels.shape)} (height x width)",
            )
    merged = np.maximum.reduce([mask.pixels for mask in drawn])
    notes = [*picture.notes, *(note for mask in drawn for note in mask.notes)]
    return RawCase(picture.pixels, merged, shape=shape, notes=tuple(dict.fromkeys(notes)))


def resize_case(case: RawCase, options: Options) -> RawCase:
    """Return the case at the size that the options ask for."""
    shape = case.mask.shape
    size = _wanted(case, options)
    if size is None:
        return replace(case, shape=shape)
    image = resize_image(case.image, size, options.aspect)
    mask = resize_mask(case.mask, size, options.aspect)
    notes = case.notes
    if case.mask.any() and not mask.any():
        notes = (*notes, ("lesion lost", f"nothing is left of it at {by(size)} pixels"))
    spacing = resize_spacing(case.spacing, shape, size, options.aspect) if case.spacing else ()
    zoom = resize_spacing(case.zoom or (1.0,) * len(shape), shape, size, options.aspect)
    return RawCase(image, mask, case.part, shape, spacing, notes, zoom)


def _wanted(case: RawCase, options: Options) -> tuple[int, ...] | None:
    """Return the size that the options ask for; nothing if cases keep their own."""
    if options.size is not None:
        return (options.size,) * case.mask.ndim
    if options.spacing is None:
        return None
    if len(options.spacing) != case.mask.ndim:
        raise CaseError(
            "spacing",
            f"data.spacing has {len(options.spacing)} sides, the case {case.mask.ndim} dimensions",
        )
    if len(case.spacing) != case.mask.ndim:
        raise CaseError(
            "spacing",
            "data.spacing needs the size of the file's pixels in millimetres, found none: leave "
            "data.spacing out, or correct the file's header",
        )
    return sides_at(case.mask.shape, case.spacing, options.spacing)
