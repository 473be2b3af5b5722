"""Prepare a folder of one's own: pictures, a CSV table, NIfTI or DICOM, one folder per site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from feda3i.data.archive import Entry, Reader
from feda3i.data.cards import OWN
from feda3i.data.decode import Options
from feda3i.data.dicom import find_dicom
from feda3i.data.listing import LAYOUT
from feda3i.data.names import DICOM, split_extension
from feda3i.data.pairs import Pair, find_pairs, has_columns, read_table
from feda3i.data.patterns import compile_group
from feda3i.data.prepare import Prepared, Progress, prepare
from feda3i.data.prepared import is_prepared
from feda3i.data.problems import Problem
from feda3i.data.split import TEST_SHARE
from feda3i.errors import DataError

TABLE = "index.csv"


def prepare_folder(
    source: Path,
    target: Path,
    *,
    options: Options | None = None,
    per_site: bool = False,
    group: str | None = None,
    test_share: float = TEST_SHARE,
    seed: int = 0,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Prepare any tree with ``images/`` and ``masks/``, a CSV table, NIfTI or DICOM files.

    Parameters
    ----------
    source
        A folder, an archive, or a CSV table with the columns image and mask; a table called
        ``index.csv`` at the top of a folder is used, too.
    per_site
        The folder above ``images/`` is a real site (it is always recorded as the source).
    group
        Pattern with a ``(?P<group>...)``: cases of one patient stay on one side of the split.
    test_share, seed
        Of the split, where the folder has no train and test.
    """
    root, table = source, None
    if source.suffix.lower() == ".csv" and source.is_file():
        root, table = source.parent, source.name
    if is_prepared(root):
        raise DataError(f"'{root}' is prepared already: use it as it is, with size=N if need be")
    if group is not None:
        compile_group(group)
    chosen = options or Options()

    def find(entries: Sequence[Entry]) -> tuple[list[Pair], list[Problem]]:
        pairs, problems = find_any(entries, chosen.volumes, group, table)
        if per_site:
            pairs = [replace(pair, site=pair.site or pair.source) for pair in pairs]
        return pairs, problems

    return prepare(
        root,
        target,
        find,
        card=OWN,
        options=chosen,
        test_share=test_share,
        seed=seed,
        workers=workers,
        overwrite=overwrite,
        progress=progress,
    )


def find_any(
    entries: Sequence[Entry], volumes: bool, group: str | None = None, table: str | None = None
) -> tuple[list[Pair], list[Problem]]:
    """Pair files by a table if there is one, else by folders, and DICOM by its references."""
    with Reader() as reader:
        for entry in entries:
            if entry.name == (table or TABLE):
                data = reader.read(entry)
                if table or has_columns(data):  # other programs write an index.csv, too
                    return read_table(data, entries, group=group)
        pairs, problems = find_pairs(entries, group)
        if any(split_extension(entry.name)[1] in DICOM for entry in entries):
            more, wrong = find_dicom(entries, reader, volumes)
            pairs, problems = pairs + more, problems + wrong
    if not pairs and not problems:
        problems = [Problem("error", "layout unknown", ".", LAYOUT)]
    return pairs, problems
