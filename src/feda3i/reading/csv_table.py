"""Pairs from a CSV table: files anywhere, with any names."""

from __future__ import annotations

import csv
import io
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from feda3i.errors import DataError
from feda3i.reading.archive import FileEntry
from feda3i.reading.names import SPLITS, group_of, split_extension
from feda3i.reading.pairs import Pair, kind_of
from feda3i.reading.problems import Problem

COLUMNS = ("image", "mask", "name", "source", "site", "split", "group")
_ALIASES = {"patient": "group", "label": "mask", "hospital": "site"}

Find = Callable[[str], FileEntry | None]


def read_table(
    table: bytes, entries: Sequence[FileEntry], group: str | None = None
) -> tuple[list[Pair], list[Problem]]:
    """Read pairs from a table inside a folder or archive; paths must stay inside.

    :func:`read_table_file` says which columns there are.
    """
    known = {entry.name: entry for entry in entries}

    def find(path: str) -> FileEntry | None:
        return known.get(posixpath.normpath(path))

    return _read(table, find, "inside the folder", group)


def read_table_file(path: Path, group: str | None = None) -> tuple[list[Pair], list[Problem]]:
    """Read pairs from a table that the user names; paths are absolute or relative to the table.

    Columns: image and mask (several masks of one image with ``|`` between them); perhaps name,
    source, site, split (train, test or validation) and group or patient. Commas, semicolons or
    tabs divide them.
    """

    def find(name: str) -> FileEntry | None:
        place = os.path.join(path.parent, os.path.expanduser(name))
        try:
            info = os.stat(place)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(info.st_mode):  # reading a pipe would wait for ever
            return None
        return FileEntry(name.replace("\\", "/"), place, info.st_size, mtime=info.st_mtime_ns)

    try:
        table = path.read_bytes()
    except OSError as error:
        raise DataError(f"the table '{path}' cannot be read: {error.strerror}") from None
    return _read(table, find, f"(relative to {path.parent})", group)


def is_table(path: Path) -> bool:
    """Return whether a path is that of a CSV table."""
    return path.suffix.lower() in (".csv", ".tsv") and path.is_file()


def has_columns(table: bytes) -> bool:
    """Return whether the first line of a table names the columns image and mask."""
    return {"image", "mask"} <= set(_columns(table)[0])


def _read(
    table: bytes, find: Find, where: str, group: str | None
) -> tuple[list[Pair], list[Problem]]:
    names, rows = _columns(table)
    if not {"image", "mask"} <= set(names):
        raise DataError(
            "the table needs a first line with the columns image and mask, found "
            f"{', '.join(names[:8]) or 'nothing'}"
        )
    pairs, problems = [], []
    for number, row in enumerate(rows, start=2):
        given = zip(names, (cell.strip() for cell in row), strict=False)
        cells = {**dict.fromkeys(COLUMNS, ""), **dict(given)}
        if not any(cells.values()):
            continue
        paths = [cells["image"], *(part.strip() for part in cells["mask"].split("|"))]
        files = [find(path) if path else None for path in paths]
        missing = [path or "?" for path, file in zip(paths, files, strict=True) if file is None]
        if missing:
            text = f"line {number}: no such file {where}: {', '.join(missing)}"
            problems.append(Problem("error", "file missing", missing[0], text))
        elif cells["split"] and cells["split"].lower() not in SPLITS:
            text = f"line {number}: expected split train, test or validation, found "
            problems.append(
                Problem("error", "split unknown", cells["image"], f"{text}'{cells['split']}'")
            )
        else:
            pairs.append(_pair(cells, [file for file in files if file is not None], group))
    return pairs, problems


def _pair(cells: dict[str, str], files: Sequence[FileEntry], group: str | None) -> Pair:
    stem, extension = split_extension(files[0].name)
    return Pair(
        name=cells["name"] or stem,
        images=(files[0],),
        masks=tuple(files[1:]),
        source=cells["source"],
        site=cells["site"],
        split=SPLITS.get(cells["split"].lower(), ""),
        group=cells["group"] or group_of(stem, group),
        kind=kind_of(extension),
    )


def _columns(table: bytes) -> tuple[list[str], Iterator[list[str]]]:
    """Return the names of a table's columns, and the rows below them."""
    text = table.decode("utf-8-sig", "replace")
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    found = [name.strip().lower() for name in next(rows, [])]
    names = [_ALIASES[n] if n in _ALIASES and _ALIASES[n] not in found else n for n in found]
    return names, rows
