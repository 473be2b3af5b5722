"""The folder that a preparation may write to: an empty one or one of ours, known by its content."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from feda3i.basics.files import PART
from feda3i.errors import DataError
from feda3i.prepare.journal import read_journal
from feda3i.reading.prepared import JOURNAL, is_made_here

SCRATCH = ".feda3i-scratch"  # inflated archives lie here while they are read


def check_places(source: Path, folder: Path) -> None:
    """Raise ``DataError`` if there is no source, or if writing could harm what is in the folder."""
    if not source.exists():
        raise DataError(f"there is no folder or archive '{source}'")
    inner, outer = folder.resolve(), source.resolve()
    if inner == outer or outer in inner.parents or inner in outer.parents:
        raise DataError(
            f"'{folder}' and '{source}' are inside one another: choose a folder outside the source"
        )
    if folder.exists() and not folder.is_dir():
        raise DataError(f"expected a folder to write to, found a file: '{folder}'")
    if folder.is_dir() and not is_target(folder):
        raise DataError(
            f"'{folder}' is not empty and holds no set prepared by us: choose another folder"
        )


def is_target(folder: Path) -> bool:
    """Return whether a folder is empty or was written by a preparation, finished or not.

    A file called ``manifest.json`` proves nothing, many programs write one: what it says does.
    """
    found = [item for item in folder.iterdir() if not _is_left_over(item)]
    return not found or is_made_here(folder) or read_journal(folder)[0] is not None


@contextlib.contextmanager
def open_target(folder: Path) -> Iterator[Path]:
    """Make the folder, and yield a place for large temporary files that is removed at the end.

    If the work fails before the first case is done, nothing is left behind.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder / SCRATCH
    finally:
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)
        if not read_journal(folder)[1]:
            with contextlib.suppress(OSError):  # a folder that holds anything stays
                for name in ("images", "masks"):
                    if (folder / name).exists():
                        (folder / name).rmdir()
                (folder / JOURNAL).unlink(missing_ok=True)
                if is_new:
                    folder.rmdir()


def _is_left_over(item: Path) -> bool:
    """Return whether this may be left from a preparation that was killed at its start."""
    return item.name == SCRATCH or (item.name.startswith(PART) and item.name.endswith(JOURNAL))
