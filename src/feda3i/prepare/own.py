"""Prepare your own folder: pictures, a CSV table, NIfTI or DICOM, one folder per site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from feda3i.data.cards import OWN
from feda3i.data.partition import TEST_SHARE
from feda3i.errors import DataError
from feda3i.prepare.work import Prepared, Work, prepare
from feda3i.reading.archive import FileEntry
from feda3i.reading.csv_table import is_table, read_table_file
from feda3i.reading.decode import Options
from feda3i.reading.listing import LAYOUT, find_any
from feda3i.reading.pairs import Pair
from feda3i.reading.patterns import compile_group
from feda3i.reading.prepared import is_prepared
from feda3i.reading.problems import Problem, errors_of
from feda3i.reading.usage import Unused, Usage, judge_unused, usage_of, with_empty, without


def prepare_folder(
    source: Path,
    target: Path,
    *,
    options: Options | None = None,
    per_site: bool = False,
    group: str | None = None,
    unused: Unused = "error",
    test_share: float = TEST_SHARE,
    seed: int = 0,
    **work: Unpack[Work],
) -> Prepared:
    """Prepare a tree of any common layout, a CSV table, NIfTI or DICOM files.

    Parameters
    ----------
    source
        A folder, an archive, or a CSV table with the columns image and mask, whose paths may lead
        anywhere; a table called ``index.csv`` at the top of a folder is used, too.
    per_site
        The folder above the images is a real site (it is always recorded as the source).
    group
        Pattern with a ``(?P<group>...)``: cases of one patient stay on one side of the split.
    unused
        Whether pictures that are in no case are errors, or allowed.
    test_share, seed
        Of the split, where the folder has no train and test.
    """
    if source.is_dir() and is_prepared(source):
        raise DataError(f"'{source}' is prepared already: use it as it is, with size=N if need be")
    if group is not None:
        compile_group(group)
    chosen = options or Options(classes=())
    usage: list[Usage] = []
    paired: dict[str, Pair] = {}

    def find(entries: Sequence[FileEntry]) -> tuple[list[Pair], list[Problem]]:
        if is_table(source):
            pairs, problems = read_table_file(source, group)
        else:
            pairs, problems = find_any(entries, group, chosen.volumes)
            if not pairs and not problems:
                problems = [Problem("error", "layout unknown", ".", LAYOUT)]
        usage.extend(usage_of(entries, pairs, problems))
        paired.update({pair.name: pair for pair in pairs})
        if per_site:
            pairs = [replace(pair, site=pair.site or pair.source) for pair in pairs]
        return pairs, judge_unused(problems, unused)

    result = prepare(
        source,
        target,
        find,
        card=OWN,
        options=chosen,
        test_share=test_share,
        seed=seed,
        **work,
    )
    spoilt = [(paired[p.name], p.kind) for p in errors_of(result.problems) if p.name in paired]
    found = without(with_empty(usage, source) if source.is_dir() else usage, spoilt)
    return replace(result, usage=tuple(found))
