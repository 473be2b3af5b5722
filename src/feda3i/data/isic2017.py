"""ISIC 2017 (the paper's SKIN): 2,000 training and 600 test dermoscopy images, official split."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic.dataclasses import dataclass

from feda3i.data.division import Count
from feda3i.data.folder import Folder
from feda3i.reading.file_list import FileEntry
from feda3i.reading.listing import find_any
from feda3i.reading.match import Files, Pair, match
from feda3i.reading.names import split_extension
from feda3i.reading.options import Options
from feda3i.reading.problems import Problem

EXPECTED = {"training": 2000, "validation": 150, "test": 600}
# ISIC-2017_Training_Data, ISIC-2017_Test_v2_Part1_GroundTruth, ... anywhere in the path.
_PART = re.compile(
    r"ISIC-2017_(Training|Validation|Test)(?:_v2)?_(Data|Part1_GroundTruth)", re.IGNORECASE
)
UNPACK = "download it again, then for every archive: unzip ISIC-2017_....zip -d DIR"
_SPLITS = {"training": "train", "validation": "validation", "test": "test"}


@dataclass(frozen=True, kw_only=True)
class Isic2017(Folder):
    """SKIN: RGB, the official split, 50 sites of 40 by default."""

    sites: Count | None = 50
    partition: str | None = "iid"
    channels: int | None = 3

    about: ClassVar[str] = (
        "ISIC 2017, lesion segmentation: https://challenge.isic-archive.com/data/#2017\n"
        "  Training Data, Training Part1 GroundTruth, Test v2 Data, Test v2 Part1 GroundTruth "
        "(four zip files, about 12 GB)\n  cite Codella et al. 2018, arXiv:1710.05006\n"
        "Unpack them all into one folder and "
    )
    licence: ClassVar[str] = "CC-0 as stated on that page; the page is what counts"

    def find(
        self, entries: Sequence[FileEntry], options: Options
    ) -> tuple[list[Pair], list[Problem]]:
        """Pair the publisher's unpacked folders, or else any common layout."""
        is_published = any(_PART.search(entry.name) for entry in entries)
        return find_isic2017(entries) if is_published else find_any(entries, options)


def find_isic2017(entries: Sequence[FileEntry]) -> tuple[list[Pair], list[Problem]]:
    """Pair images and masks of each part; files of superpixels are left aside."""
    parts: dict[tuple[str, str], Files] = defaultdict(lambda: defaultdict(list))
    problems: list[Problem] = []
    for entry in entries:
        place = _PART.search(posixpath.dirname(entry.name))
        stem, extension = split_extension(posixpath.basename(entry.name))
        if place and extension and not stem.lower().endswith("_superpixels"):
            parts[place[1].lower(), place[2].lower()][stem].append(entry)
        elif extension:
            text = "a map of superpixels" if place else "in no folder of the publisher"
            problems.append(Problem("note", "left aside", entry.name, text))
    tested = "validation" if ("test", "data") not in parts else "test"
    pairs: list[Pair] = []
    for part, split in _SPLITS.items():
        found, wrong = match(parts[part, "data"], parts[part, "part1_groundtruth"])
        problems += wrong
        if len(found) != EXPECTED[part] and (found or part in ("training", tested)):
            text = f"expected {EXPECTED[part]} pairs, found {len(found)}: {UNPACK}"
            problems.append(Problem("error", "set incomplete", part, text))
        pairs += [replace(pair, source="isic2017", split=split) for pair in found]
    return pairs, problems
