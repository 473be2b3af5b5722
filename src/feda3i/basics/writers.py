"""Write pictures, arrays, tables and figures atomically; missing folders are created."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feda3i.basics.files import write_file

FIGURES = ("png", "svg", "pdf")
"""Formats of figures."""

if TYPE_CHECKING:
    from PIL.Image import Image


def write_png(path: Path, picture: Image | NDArray[Any], compression: int = 6) -> None:
    """Write a picture, or ``(row, column)`` or ``(row, column, 3)`` pixels, as PNG.

    Parameters
    ----------
    compression
        From 0 (large and fast) to 9 (small and slow).
    """
    from PIL import Image

    buffer = io.BytesIO()
    made = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    made.save(buffer, "PNG", compress_level=compression)
    _write(path, buffer.getvalue())


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as ``.npy``."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    _write(path, buffer.getvalue())


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


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, data, durable=False)
