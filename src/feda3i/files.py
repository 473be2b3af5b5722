"""Atomic writes of bytes, pictures, arrays, tables and figures."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import RecipeError

if TYPE_CHECKING:
    from PIL.Image import Image

FIGURES = ("png", "svg", "pdf")  # formats of figures
PART = ".part-"  # beginning of the names of files that are being written


def write_file(path: Path, data: bytes, *, durable: bool = True, mode: int = 0o666) -> None:
    """Write a file atomically: under a temporary name, which is then renamed.

    A ``durable`` file is on the disk first: even a power failure leaves the old one or the new one.
    That costs milliseconds; do without where a file is easily made again.
    """
    if not path.name:  # an empty path would mean the working directory
        raise RecipeError(f"expected the name of a file to write, found '{path}'")
    part = path.with_name(f"{PART}{os.getpid()}-{path.name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(part, flags, mode), "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def make_private(folder: Path) -> Path:
    """Make a folder for pixels, which only the user may enter, and return it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def write_png(path: Path, picture: Image | NDArray[Any], compression: int = 6) -> None:
    """Write a picture, or pixels ``(row, column)`` or ``(row, column, 3)``, as a private PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    made = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    made.save(buffer, "PNG", compress_level=compression, exif=made.getexif())
    _write(path, buffer.getvalue(), 0o600)


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as ``.npy`` that only the user can read."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    _write(path, buffer.getvalue(), 0o600)


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table in UTF-8 with lines that end in a line feed, the same on every system."""
    _write(path, csv_text(columns, [[row[name] for name in columns] for row in rows]).encode())


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as comma-separated values."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def write_figure(path: Path, figure: Any, dpi: int) -> None:
    """Write a figure of matplotlib as SVG or PDF if its name says so, else as PNG.

    Letters of an SVG are outlines and a PDF brings its fonts along: both look the same in every
    paper. Neither tells when it was made, so the same figure gives the same file.
    """
    import matplotlib as mpl

    kind = path.suffix.lstrip(".").lower()
    kind = kind if kind in FIGURES else "png"
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    letters: Any = {"svg.fonttype": "path", "svg.hashsalt": "feda3i", "pdf.fonttype": 42}
    buffer = io.BytesIO()
    with mpl.rc_context(letters):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=undated)
    _write(path, buffer.getvalue())


def _write(path: Path, data: bytes, mode: int = 0o666) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, data, durable=False, mode=mode)
