"""Pairs from a CSV table: files with any names."""

import csv
import io
import os
from pathlib import Path

from feda3i.errors import DataError, printable
from feda3i.reading.file_list import OUTSIDE, FileEntry, is_inside
from feda3i.reading.match import Pair
from feda3i.reading.names import SPLITS, group_of, split_extension
from feda3i.reading.pairs import kind_of
from feda3i.reading.problems import CaseError, Problem

_DELIMITERS = ",;\t"


def read_table(
    table: bytes, home: Path, group: str | None = None, allow_outside: bool = False
) -> tuple[list[Pair], list[Problem]]:
    """Read pairs from a table; paths are absolute or relative to its folder, and stay inside it.

    Columns: image and mask (several masks of one image with ``|`` between them); perhaps name,
    source, site, split (train, test or validation) and group or patient. Commas, semicolons or
    tabs divide them.
    """
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for number, row in enumerate(_rows(table), start=2):
        if not any(row.values()):
            continue
        paths = [row["image"], *(part.strip() for part in row["mask"].split("|"))]
        split = row.get("split", "").lower()
        try:
            files = [_find(path, home, allow_outside) for path in paths]
            if split and split not in SPLITS:
                text = f"expected train, test or validation, found '{printable(split, 80)}'"
                raise CaseError("split unknown", text)
        except CaseError as error:
            problems.append(error.problem(f"line {number}"))
            continue
        stem = split_extension(files[0].name)[0]
        pairs.append(
            Pair(
                name=printable(row.get("name", "")) or stem,
                images=(files[0],),
                masks=tuple(files[1:]),
                source=printable(row.get("source", "")),
                site=row.get("site", ""),
                split=SPLITS.get(split, ""),
                group=row.get("group") or row.get("patient") or group_of(stem, group),
                kind=kind_of(files[0].name),
            )
        )
    return pairs, problems


def is_table(path: Path) -> bool:
    """Return whether a path is that of a CSV table."""
    return path.suffix.lower() in (".csv", ".tsv") and path.is_file()


def _find(path: str, home: Path, allow_outside: bool) -> FileEntry:
    told = printable(path or "?", 200)
    place = os.path.join(home, os.path.expanduser(path))
    if not path or not os.path.isfile(place):  # reading a pipe would wait for ever
        raise CaseError("file missing", f"no file {told} (relative to {home})")
    if not (allow_outside or is_inside(place, str(home))):
        raise CaseError("file outside the folder", f"{told} lies outside {home}: {OUTSIDE}")
    inside = os.path.relpath(place, home) if is_inside(place, str(home)) else path
    return FileEntry.of(printable(inside.replace("\\", "/")), place, os.stat(place))


def _rows(table: bytes) -> list[dict[str, str]]:
    text = table.decode("utf-8-sig", "replace")
    delimiter = max(_DELIMITERS, key=text.split("\n", 1)[0].count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names, *rows = [[cell.strip() for cell in line] for line in lines] or [[]]
    except csv.Error as error:  # e.g. a field of more than 128 KiB: a quote that is never closed
        raise DataError(
            f"line {lines.line_num} of the table cannot be read ({error}): look for a quote that "
            "is not closed"
        ) from None
    names = [name.lower() for name in names]
    if not {"image", "mask"} <= set(names):
        raise DataError(
            "the table needs a first line with the columns image and mask, found "
            f"{', '.join(map(printable, names[:8])) or 'nothing'}"
        )
    empty = dict.fromkeys(names, "")
    return [empty | dict(zip(names, row, strict=False)) for row in rows]
