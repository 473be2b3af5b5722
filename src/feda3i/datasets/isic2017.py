"""ISIC 2017 (the paper's SKIN): 2,000 training and 600 test dermoscopy images, official split."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Unpack

from feda3i.core.cases import Federation
from feda3i.core.resize import Aspect
from feda3i.data.cards import ISIC2017
from feda3i.data.folder import folder, need_path
from feda3i.prepare.work import Prepared, Work, prepare
from feda3i.reading.archive import FileEntry
from feda3i.reading.decode import Options
from feda3i.reading.match import match
from feda3i.reading.names import split_extension
from feda3i.reading.pairs import Pair
from feda3i.reading.problems import Problem
from feda3i.reading.usage import Unused

TestSet = Literal["test", "validation"]
EXPECTED = {"training": 2000, "validation": 150, "test": 600}
# ISIC-2017_Training_Data, ISIC-2017_Test_v2_Part1_GroundTruth, ... anywhere in the path.
_PART = re.compile(
    r"ISIC-2017_(Training|Validation|Test)(?:_v2)?_(Data|Part1_GroundTruth)", re.IGNORECASE
)


def isic2017(
    path: str | Path | None = None,
    *,
    sites: int = 50,
    cases: int | None = None,
    test: int | None = None,
    size: int | None = None,
    aspect: Aspect = "squeeze",
    partition: str = "iid",
    alpha: float = 0.5,
    seed: int = 0,
    unused: Unused = "error",
    workers: int | None = None,
    cache: bool | Path = True,
) -> Federation:
    """Return SKIN: RGB, the official split, 50 sites of 40 by default.

    Parameters
    ----------
    path
        What ``feda3i prepare isic2017`` has written, or a tree ``{train,test}/{images,masks}``.
    sites, cases, test, size, aspect, partition, alpha, seed, unused, workers, cache
        As for :func:`feda3i.data.folder.folder`.
    """
    return folder(
        need_path(path, ISIC2017),
        sites=None if partition == "by-folder" else sites,
        cases=cases,
        test=test,
        size=size,
        channels=3,
        aspect=aspect,
        partition=partition,
        alpha=alpha,
        seed=seed,
        unused=unused,
        workers=workers,
        cache=cache,
    )


def prepare_isic2017(
    source: Path,
    target: Path,
    *,
    size: int | None = 256,
    aspect: Aspect = "squeeze",
    test_set: TestSet = "test",
    **work: Unpack[Work],
) -> Prepared:
    """Prepare the folder that holds the publisher's four archives, unpacked or not.

    Parameters
    ----------
    test_set
        Which part to test on: ``"test"`` (Test_v2, 600 images) or ``"validation"`` (150).
    """
    return prepare(
        source,
        target,
        partial(find_isic2017, test_set=test_set),
        card=ISIC2017,
        options=Options(size=size, aspect=aspect, channels=3),
        **work,
    )


def find_isic2017(
    entries: Sequence[FileEntry], test_set: TestSet = "test"
) -> tuple[list[Pair], list[Problem]]:
    """Pair images and masks of the training and the test part; superpixel files are skipped."""
    parts: dict[tuple[str, str], dict[str, list[FileEntry]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for entry in entries:
        found = _PART.search(posixpath.dirname(entry.name))
        stem, extension = split_extension(posixpath.basename(entry.name))
        if found and extension and not stem.lower().endswith("_superpixels"):
            parts[found[1].lower(), found[2].lower()][stem].append(entry)
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for part, split in (("training", "train"), (test_set, "test")):
        images, masks = parts[part, "data"], parts[part, "part1_groundtruth"]
        for kind, files in (("images", images), ("masks", masks)):
            if len(files) != EXPECTED[part]:
                text = f"expected {EXPECTED[part]} {kind}, found {len(files)}: download it again"
                problems.append(Problem("error", "set incomplete", f"{part} {kind}", text))
        matched, wrong = match(images, masks)
        problems += wrong
        pairs += [Pair(m.stem, m.images, m.masks, "isic2017", split=split) for m in matched]
    return pairs, problems


DATASET = isic2017
