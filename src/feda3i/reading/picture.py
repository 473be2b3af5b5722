"""Read images from PNG, JPEG, TIFF and BMP, whatever way they were saved.

What had to be corrected is returned as notes; what cannot be corrected raises ``CaseError``.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from feda3i.reading.limits import MAX_PIXELS
from feda3i.reading.problems import CaseError, reading

Note = tuple[str, str]  # kind, text
GREY = frozenset({"1", "L", "I;16", "I;16B", "I;16L", "I", "F", "LA", "La"})
DEEP = frozenset({"I;16", "I;16B", "I;16L", "I", "F"})
_ORIENTATION = 0x0112
_DEEP = ("I;16", "LA;16", "RGB;16", "RGBA;16", "RGBX;16")  # how Pillow unpacks 16 bits per channel


@dataclass(frozen=True)
class Decoded:
    """Pixels of an image ``(height, width, channel)`` or a mask ``(height, width)``."""

    pixels: NDArray[Any]
    notes: tuple[Note, ...] = ()


def open_picture(file: IO[bytes]) -> ImageFile.ImageFile:
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


def is_grey(file: IO[bytes]) -> bool:
    """Return whether a picture has one channel, from its header."""
    return open_picture(file).mode in GREY


def read_image(
    data: bytes,
    *,
    channels: int | None = None,
    bits: int = 16,
    upright: bool = True,
    keep: bool = False,
) -> Decoded:
    """Decode an image to bytes (or to the values of a deep one) with one or three channels.

    Parameters
    ----------
    channels
        1 (grey), 3 (colour) or ``None`` (as the file is).
    bits
        Bits in use in 16-bit files: the value ``2**bits - 1`` becomes 255.
    upright
        Turn the image as its EXIF orientation says.
    keep
        Keep the values of grey pictures of 16 or 32 bits per pixel instead of scaling to bytes.
    """
    picture = open_picture(io.BytesIO(data))
    notes: list[Note] = []
    if keep and picture.mode in DEEP:
        return Decoded(_kept(decode(picture, upright, notes), channels), tuple(notes))
    if any(tag in str(tile.args) for tile in picture.tile for tag in _DEEP):
        notes.append(("16-bit image", f"scaled to 8 bits from {bits}"))
    decoded = decode(picture, upright, notes)
    array = _to_bytes(decoded, bits, notes)
    found = array.shape[-1]
    if channels == 3 and found == 1:
        notes.append(("grey where colour is due", "the one channel was repeated"))
        array = np.repeat(array, 3, axis=-1)
    elif channels == 1 and found == 3:
        if (array != array[..., :1]).any():
            notes.append(("colour where grey is due", "converted to luminance"))
        array = np.asarray(Image.fromarray(array).convert("L"))[..., None]
    return Decoded(np.ascontiguousarray(array), tuple(notes))


def _kept(picture: Image.Image, channels: int | None) -> NDArray[Any]:
    """Return the values of a deep grey picture ``(height, width, channel)``."""
    from feda3i.reading.nifti import as_kept

    values = np.asarray(picture)
    if not np.isfinite(values).all():
        raise CaseError("image values", "found pixels that are not finite: correct the file")
    return np.repeat(as_kept(values)[..., None], 3 if channels == 3 else 1, axis=-1)


def decode(picture: ImageFile.ImageFile, upright: bool, notes: list[Note]) -> Image.Image:
    """Read the pixels, rotated by the EXIF orientation if they are to be upright."""
    with reading("corrupt picture"):
        picture.load()
        if not upright or picture.getexif().get(_ORIENTATION, 1) == 1:
            return picture
        notes.append(("EXIF rotation", "turned upright"))
        return ImageOps.exif_transpose(picture)


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
