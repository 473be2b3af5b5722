"""Masks and tables on disk: what the noise commands read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.basics.writers import write_csv, write_png
from feda3i.errors import DataError
from feda3i.reading.picture import read_image, read_mask

MASK_FILES = (".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg", ".npy")


def find_masks(folder: Path) -> list[Path]:
    """Return the mask files of a folder (or the one file given), sorted; stems must differ."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}'")
    found = sorted(f for f in folder.iterdir() if f.suffix.lower() in MASK_FILES and f.is_file())
    if not found:
        raise DataError(f"'{folder}' has no mask: expected {', '.join(MASK_FILES)}")
    stems = [f.stem for f in found]
    twice = sorted({s for s in stems if stems.count(s) > 1})
    if twice:
        raise DataError(
            f"'{folder}' has several files called '{twice[0]}': noise depends on the name"
        )
    return found


def read_mask_file(file: Path, classes: int = 1) -> NDArray[Any]:
    """Read a mask from a picture or an ``.npy`` array."""
    if not file.is_file():
        raise DataError(f"there is no file '{file}'")
    if file.suffix.lower() == ".npy":
        try:
            array: NDArray[Any] = np.load(file, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise DataError(f"cannot be read as an array: {error}") from None
        return array
    return read_mask(file.read_bytes(), classes=classes).pixels


def write_picture(stem: Path, pixels: NDArray[np.uint8], *, is_binary: bool = False) -> None:
    """Write ``STEM.png``; a binary mask becomes 0 and 255."""
    flat = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[-1] == 1 else pixels
    drawn = flat * np.uint8(255) if is_binary else flat
    write_png(stem.with_name(f"{stem.name}.png"), drawn, compression=1)


def write_table(path: Path, rows: Sequence[Any], **more: Any) -> None:
    """Write dataclasses or dictionaries as CSV, with columns that are the same for all rows."""
    records = [{**(r if isinstance(r, dict) else asdict(r)), **more} for r in rows]
    cells = [
        {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in record.items()}
        for record in records
    ]
    write_csv(path, list(records[0]), cells)


def read_image_file(file: Path) -> NDArray[np.uint8]:
    """Read a picture as ``(row, column, channel)``."""
    if not file.is_file():
        raise DataError(f"there is no file '{file}'")
    return read_image(file.read_bytes()).pixels
