"""Read images and masks from PNG, JPEG, TIFF and BMP.

What had to be corrected is returned as notes; what cannot be corrected raises ``CaseError``.

Grey masks: bright is foreground, or the value is the class. Palette masks: the index is the class.
Colours: one colour on black is one class. A file that can be read in two ways is refused.
"""

import io
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from feda3i.reading.problems import CaseError, reading

Note = tuple[str, str]  # kind, text
MAX_PIXELS = 80_000_000  # by the header of a picture; the largest of ISIC 2017 has 30 million
GREY = frozenset({"1", "L", "I;16", "I;16B", "I;16L", "I", "F", "LA", "La"})
DEEP = frozenset({"I;16", "I;16B", "I;16L", "I", "F"})
_ORIENTATION = 0x0112
# From upright to stored: the way back from what Pillow does to turn a picture upright.
_BACK = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
# Masks with more than two values are cut at half of their maximum, if that is at least this bright:
# JPEG smears 0/255, but 0, 1, 2, 3 are classes or instances and must be declared.
_BRIGHT = 128
_HUE = 4  # parts of 255 by which rounding may change the hue of one colour
_COLOURS = (
    "found {} colours where one class is declared: declare all classes, and save the mask as "
    "0, 1, 2, ... or with a palette"
)


@dataclass(frozen=True)
class Decoded:
    """Pixels of an image ``(height, width, channel)`` or a mask ``(height, width)``."""

    pixels: NDArray[Any]
    notes: tuple[Note, ...] = ()


def _open(file: IO[bytes]) -> ImageFile.ImageFile:
    """Open a picture and look at its header only; refuse what is too large to decode."""
    with reading("corrupt picture"):
        try:
            picture = Image.open(file, formats=("PNG", "JPEG", "TIFF", "BMP"))
        except UnidentifiedImageError:
            text = "expected PNG, JPEG, TIFF or BMP; the file is damaged or another kind"
            raise CaseError("not a picture", text) from None
        except Image.DecompressionBombError:
            raise CaseError("image too large", f"more than {MAX_PIXELS} pixels") from None
        width, height = picture.size
        if width * height > MAX_PIXELS:
            text = f"{width} x {height}; at most {MAX_PIXELS} pixels are decoded"
            raise CaseError("image too large", text)
        if getattr(picture, "n_frames", 1) > 1:
            raise CaseError("several pages", "expected one picture per file: split the pages")
    return picture


def is_grey(place: str) -> bool:
    """Return whether a picture has one channel, from its header."""
    with open(place, "rb") as file:
        return _open(file).mode in GREY


def read_image(
    data: bytes, *, channels: int | None = None, upright: bool = True, keep: bool = False
) -> Decoded:
    """Decode an image to bytes with one or three channels (``None``: as the file is).

    ``upright`` turns it as its EXIF orientation says; ``keep`` keeps the values of grey pictures of
    16 or 32 bits per pixel.
    """
    notes: list[Note] = []
    picture = _decode(_open(io.BytesIO(data)), upright, notes)
    if keep and picture.mode in DEEP:
        values = np.asarray(picture)
        if not np.isfinite(values).all():
            raise CaseError("image values", "found pixels that are not finite: correct the file")
        array = as_kept(values)[..., None]
    else:
        array = _to_bytes(picture, notes)
    found = array.shape[-1]
    if channels == 3 and found == 1:
        array = np.repeat(array, 3, axis=-1)
    elif channels == 1 and found == 3:
        array = np.asarray(Image.fromarray(array).convert("L"))[..., None]
    return Decoded(np.ascontiguousarray(array), tuple(notes))


def as_kept(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as ``int16`` if that holds all of them exactly, else as ``float32``."""
    if values.dtype.kind == "f" and (values != np.rint(values)).any():
        return np.asarray(values, np.float32)
    fits = values.size == 0 or (values.min() >= -(2**15) and values.max() < 2**15)
    return values.astype(np.int16 if fits else np.float32)


def _decode(picture: ImageFile.ImageFile, upright: bool, notes: list[Note]) -> Image.Image:
    """Read the pixels, rotated by the EXIF orientation if they are to be upright."""
    with reading("corrupt picture"):
        picture.load()
        if not upright or picture.getexif().get(_ORIENTATION, 1) == 1:
            return picture
        notes.append(("EXIF rotation", "turned upright"))
        return ImageOps.exif_transpose(picture)


def orientation_of(data: bytes) -> int:
    """Return the EXIF orientation of a picture; 1 is upright."""
    with reading("corrupt picture"):
        return int(_open(io.BytesIO(data)).getexif().get(_ORIENTATION, 1))


def as_stored(upright: NDArray[np.uint8], orientation: int) -> Image.Image:
    """Return an upright mask turned back to lie on its stored picture, with the same EXIF tag."""
    picture = Image.fromarray(upright)
    if orientation in _BACK:
        picture = picture.transpose(_BACK[orientation])
        picture.getexif()[_ORIENTATION] = orientation
    return picture


def _to_bytes(picture: Image.Image, notes: list[Note]) -> NDArray[np.uint8]:
    """Return ``(height, width, 1 or 3)``."""
    if picture.mode in ("I", "F"):
        raise CaseError("image depth", f"{picture.mode}: expected 8 or 16 bits per channel")
    if picture.mode.startswith("I;16"):
        values = np.asarray(picture).astype(np.uint32)
        if values.max() < 4096:
            text = "no value above 4095: data.values=kept keeps what 12 bits tell"
            notes.append(("dark 16-bit image", text))
        return ((values * 255 + 32767) // 65535).astype(np.uint8)[..., None]
    if picture.mode == "P" or "transparency" in picture.info:
        picture = picture.convert("RGB")
    array = np.asarray(picture.convert("L" if picture.mode in GREY else "RGB"))
    return array[..., None] if array.ndim == 2 else array


def read_mask(data: bytes, *, classes: int = 1, upright: bool = True) -> Decoded:
    """Decode a mask to 0 (background) and 1..classes.

    With one class anything above half of the maximum is foreground, and files that hold several
    classes are refused. With several, values (of a palette: indices) must be 0..classes.
    """
    notes: list[Note] = []
    picture = _decode(_open(io.BytesIO(data)), upright, notes)
    values = _levels(picture, classes)
    made = exact_classes(values, classes) if classes > 1 else binarise(values, notes)
    return Decoded(made, tuple(notes))


def binarise(values: NDArray[Any], notes: list[Note]) -> NDArray[np.uint8]:
    """Return 1 where a mask exceeds half of its maximum; note values in between."""
    low, top = values.min(), values.max()
    if not np.isfinite(values).all() or low < 0:
        raise CaseError("mask values", f"expected 0 and one more value, found {low}..{top}")
    foreground = values > top / 2
    # A constant mask (empty or full) and one with 0 and a maximum are exact.
    between = int(((values != low) & (values != top)).sum()) if low != top else 0
    if between or low not in (0, top):
        found = np.unique(values)
        if top < _BRIGHT:
            few = ", ".join(str(v) for v in found[:6])
            raise CaseError(
                "mask values",
                f"found {few}{', ...' if len(found) > 6 else ''} where one class is declared: "
                "declare all classes (data.classes, --classes), or save the mask with 0 and 255",
            )
        if low > top / 2 and top - low > top / 8:  # more than a full mask that JPEG has smeared
            raise CaseError("mask values", f"expected a dark background, found {low} to {top}")
        share = f"{between / values.size:.1%}"
        text = f"{len(found)} values, {share} of the pixels between; cut at half"
        notes.append(("mask with values between", text))
    return np.asarray(foreground, np.uint8)


def exact_classes(values: NDArray[Any], classes: int) -> NDArray[np.uint8]:
    """Return values 0..classes as they are; refuse any other."""
    found = np.unique(values)
    if not set(found.tolist()) <= set(range(classes + 1)):
        few = ", ".join(f"{v:g}" for v in found[:8])
        raise CaseError(
            "mask values", f"expected 0 to {classes} (one per class), found {few}: relabel the mask"
        )
    return values.astype(np.uint8)


def _levels(picture: Image.Image, classes: int) -> NDArray[Any]:
    """Return a mask's values ``(height, width)``; colours must be shades of one (or of grey)."""
    if picture.mode == "P":
        return np.asarray(picture) if classes > 1 else _from_palette(picture)
    values = np.asarray(picture)
    if values.ndim == 2:
        return values.astype(np.uint8) if values.dtype == bool else values
    if picture.mode not in ("LA", "RGB", "RGBA"):
        with reading("corrupt picture"):
            picture = picture.convert("RGBA" if picture.mode[-1] in "aA" else "RGB")
        values = np.asarray(picture)
    if picture.mode[-1] == "A":
        values, alpha = values[..., :-1], values[..., -1]
        if (alpha != alpha[0, 0]).any():
            text = "its alpha channel hides a part: save the mask without it, as 0 and 255"
            raise CaseError("mask values", text)
    if (values == values[..., :1]).all():
        return np.asarray(values[..., 0])
    if classes > 1:
        text = "found colours: save classes as 0, 1, 2, ... or with a palette"
        raise CaseError("mask values", text)
    top = values.max(axis=-1)
    bright = top > top.max() / 2 if top.max() >= _BRIGHT else top > 0
    hues = np.rint(values[bright] * (255.0 / top[bright])[:, None])
    if (np.abs(hues - np.median(hues, axis=0)) > _HUE).any():
        raise CaseError("mask values", _COLOURS.format("several"))
    return np.asarray(top)


def _from_palette(picture: Image.Image) -> NDArray[Any]:
    """Return 0 and 1, or grey levels, of a mask with one class that is stored with a palette.

    Index 0 is background. A palette of greys may also be a grey picture, whose bright pixels are
    foreground: where the two readings differ the file is refused.
    """
    index = np.asarray(picture)
    used = np.unique(index)
    table = np.array(picture.getpalette("RGB")).reshape(-1, 3)
    with reading("corrupt picture"):
        levels = table[used, 0]
    if (table == table[:, :1]).all() and len(set(levels.tolist())) == len(used):
        bright = levels > levels.max() / 2
        if bright[0] if used[0] == 0 else not bright.any():
            raise CaseError(
                "mask palette",
                "by its index the background is bright, by its colours dark: save the mask "
                "without palette, as 0 and 255",
            )
        return np.asarray(table[index, 0], np.uint8)
    if np.count_nonzero(used) > 1:
        raise CaseError("mask values", _COLOURS.format(np.count_nonzero(used)))
    return np.asarray(index != 0, np.uint8)
