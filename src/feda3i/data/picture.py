"""Read images and masks from PNG, JPEG, TIFF and BMP, whatever way they were saved.

What had to be mended is returned as notes; what cannot be mended raises ``CaseError``.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from feda3i.data.limits import MAX_PIXELS
from feda3i.data.problems import CaseError

Note = tuple[str, str]  # kind, text
GREY = frozenset({"1", "L", "I;16", "I;16B", "I;16L", "I", "F", "LA", "La"})
_ORIENTATION = 0x0112
_DEEP = ("I;16", "LA;16", "RGB;16", "RGBA;16", "RGBX;16")  # how Pillow unpacks 16 bits per channel
# Masks with more than two values are cut at half of their maximum, if that is at least this bright:
# JPEG smears 0/255, but 0, 1, 2, 3 are classes or instances and must be declared.
_BRIGHT = 128


@dataclass(frozen=True)
class Picture:
    """Pixels of an image ``(height, width, channel)`` or a mask ``(height, width)``, ``uint8``."""

    pixels: NDArray[np.uint8]
    notes: tuple[Note, ...] = ()


def open_picture(file: IO[bytes]) -> ImageFile.ImageFile:
    """Open a picture and look at its header only; refuse what is too large to decode."""
    try:
        picture = Image.open(file, formats=("PNG", "JPEG", "TIFF", "BMP"))
    except UnidentifiedImageError:
        raise CaseError(
            "not a picture", "expected PNG, JPEG, TIFF or BMP; the file is damaged or another kind"
        ) from None
    except Image.DecompressionBombError:
        raise CaseError("image too large", f"more than {MAX_PIXELS} pixels") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise CaseError("corrupt picture", str(error)) from None
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise CaseError(
            "image too large", f"{width} x {height}; at most {MAX_PIXELS} pixels are decoded"
        )
    if getattr(picture, "n_frames", 1) > 1:
        raise CaseError("several pages", "expected one picture per file: split the pages")
    return picture


def is_grey(file: IO[bytes]) -> bool:
    """Return whether a picture has one channel, from its header."""
    return open_picture(file).mode in GREY


def read_image(
    data: bytes, *, channels: int | None = None, bits: int = 16, upright: bool = True
) -> Picture:
    """Decode an image to bytes with one or three channels.

    Parameters
    ----------
    channels
        1 (grey), 3 (colour) or ``None`` (as the file is).
    bits
        Bits in use in 16-bit files: the value ``2**bits - 1`` becomes 255.
    upright
        Turn the image as its EXIF orientation says.
    """
    picture = open_picture(io.BytesIO(data))
    notes: list[Note] = []
    if any(tag in str(tile.args) for tile in picture.tile for tag in _DEEP):
        notes.append(("16-bit image", f"scaled to 8 bits from {bits}"))
    decoded = _decode(picture, upright, notes)
    array = _to_bytes(decoded, bits, notes)
    found = array.shape[-1]
    if channels == 3 and found == 1:
        notes.append(("grey where colour is due", "the one channel was repeated"))
        array = np.repeat(array, 3, axis=-1)
    elif channels == 1 and found == 3:
        if (array != array[..., :1]).any():
            notes.append(("colour where grey is due", "converted to luminance"))
        array = np.asarray(Image.fromarray(array).convert("L"))[..., None]
    return Picture(np.ascontiguousarray(array), tuple(notes))


def read_mask(data: bytes, *, classes: int = 1, upright: bool = True) -> Picture:
    """Decode a mask to 0 (background) and 1..classes.

    With one class anything above half of the maximum is foreground; files with a few small values
    such as 0, 1, 2 are refused, because they hold several classes. With several classes the values
    0..classes are taken as they are and any other value is refused.
    """
    picture = open_picture(io.BytesIO(data))
    notes: list[Note] = []
    if picture.mode == "P" and classes > 1:
        values = np.asarray(_decode(picture, upright, notes))  # the index is the class
    else:
        values = _one_channel(_decode(picture, upright, notes), notes)
    if classes > 1:
        return Picture(_exact(values, classes), tuple(notes))
    return Picture(binarise(values, notes), tuple(notes))


def mask_values(data: bytes) -> tuple[int, ...]:
    """Return the values that a mask file holds, before they are mapped to classes."""
    picture = _decode(open_picture(io.BytesIO(data)), False, [])
    values = np.asarray(picture) if picture.mode == "P" else _one_channel(picture, [])
    return tuple(int(v) for v in np.unique(values))


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
                "declare all classes, or save the mask with 0 and 255",
            )
        text = (
            f"{len(found)} values, {between / values.size:.1%} of the pixels between; cut at half"
        )
        notes.append(("mask with values between", text))
    return np.asarray(foreground, np.uint8)


def _exact(values: NDArray[Any], classes: int) -> NDArray[np.uint8]:
    found = np.unique(values)
    if not set(found.tolist()) <= set(range(classes + 1)):
        few = ", ".join(str(v) for v in found[:8])
        raise CaseError(
            "mask values", f"expected 0 to {classes} (one per class), found {few}: relabel the mask"
        )
    return values.astype(np.uint8)


def _decode(picture: ImageFile.ImageFile, upright: bool, notes: list[Note]) -> Image.Image:
    try:
        picture.load()
        if not upright or picture.getexif().get(_ORIENTATION, 1) == 1:
            return picture
        notes.append(("EXIF rotation", "turned upright"))
        return ImageOps.exif_transpose(picture)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise CaseError("corrupt picture", f"{error}: copy the file again") from None


def _to_bytes(picture: Image.Image, bits: int, notes: list[Note]) -> NDArray[np.uint8]:
    """Return ``(height, width, 1 or 3)``."""
    if picture.mode in ("I", "F"):
        raise CaseError("image depth", f"{picture.mode}: expected 8 or 16 bits per channel")
    if picture.mode.startswith("I;16"):
        values = np.asarray(picture).astype(np.uint32)
        if values.max() < 4096 and bits == 16:
            notes.append(("dark 16-bit image", "no value above 4095: if it has 12 bits, say so"))
        full = 2**bits - 1
        scaled: NDArray[np.uint8] = np.minimum((values * 255 + full // 2) // full, 255).astype(
            np.uint8
        )
        return scaled[..., None]
    if picture.mode == "P" or "transparency" in picture.info:
        notes.append(("palette or transparency", "expanded to colours"))
        picture = picture.convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        notes.append(("alpha channel", "dropped"))
        picture = picture.convert("L" if picture.mode[0] == "L" else "RGB")
    if picture.mode == "1":
        picture = picture.convert("L")
    if picture.mode not in ("L", "RGB"):
        notes.append(("colour space", f"{picture.mode} converted to RGB"))
        picture = picture.convert("RGB")
    array = np.asarray(picture)
    return array[..., None] if array.ndim == 2 else array


def _one_channel(picture: Image.Image, notes: list[Note]) -> NDArray[Any]:
    """Return a mask's values ``(height, width)``."""
    if picture.mode == "P":
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    values = np.asarray(picture)
    if values.ndim == 2:
        return values.astype(np.uint8) if values.dtype == bool else values
    if picture.mode in ("LA", "RGBA"):
        colour, alpha = values[..., :-1], values[..., -1]
        # Some annotation tools paint the alpha channel and leave the colour constant.
        if (colour == colour[0, 0]).all() and (alpha != alpha[0, 0]).any():
            notes.append(("alpha channel", "the mask was taken from it"))
            return alpha
        notes.append(("alpha channel", "dropped"))
        values = colour
    return np.asarray(values.max(axis=-1))
