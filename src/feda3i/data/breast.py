"""Breast ultrasound (the paper's BREAST): BUSI, BUSIS and UDIAT, split 8:2 in each source."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

from pydantic.dataclasses import dataclass

from feda3i.data.division import Count
from feda3i.data.folder import Folder
from feda3i.reading.file_list import FileEntry
from feda3i.reading.listing import find_any
from feda3i.reading.match import Pair
from feda3i.reading.names import split_extension
from feda3i.reading.options import Options
from feda3i.reading.pairs import find_pairs
from feda3i.reading.problems import Problem

EXPECTED = {"busi": 647, "busis": 562, "udiat": 163}
_CLASSES = ("benign", "malignant", "normal")
_BUSIS = re.compile(r"(?:^|[/_ -])busis", re.IGNORECASE)
_UDIAT = re.compile(r"udiat|dataset[_ ]?b(?:/|$)|(?:^|/)bus(?:/|$)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Breast(Folder):
    """BREAST: grey, 50 sites that hold one source each, by default."""

    sites: Count | None = 50
    partition: str | None = "by-source"
    channels: int | None = 1

    about: ClassVar[str] = (
        "BREAST of the FedA3I paper has three sets.\n"
        "  busi: https://scholar.cu.edu.eg/?q=afahmy/pages/dataset (Dataset_BUSI.zip); "
        "cite Al-Dhabyani et al. 2020, Data in Brief 28, 104863\n"
        "  busis: http://cvprip.cs.usu.edu/busbench/ (on request); "
        "cite Zhang et al. 2022, Healthcare 10(4), 729\n"
        "  udiat: write to Moi Hoon Yap, Manchester Metropolitan University; "
        "cite Yap et al. 2018, IEEE J. Biomed. Health Inform. 22(4), 1218-1226\n"
        "Unpack all archives into one folder and "
    )
    licence: ClassVar[str] = (
        "busi: free for research with citation; busis and udiat: research only, no "
        "redistribution, by agreement"
    )

    def find(
        self, entries: Sequence[FileEntry], options: Options
    ) -> tuple[list[Pair], list[Problem]]:
        """Pair the publishers' unpacked folders, or else any common layout."""
        folders = {part.lower() for entry in entries for part in entry.name.split("/")[:-1]}
        return find_breast(entries) if folders & {*_CLASSES} else find_any(entries, options)


def find_breast(entries: Sequence[FileEntry]) -> tuple[list[Pair], list[Problem]]:
    """Pair the files of the three layouts.

    BUSI is known by its folders benign, malignant and normal, BUSIS and UDIAT by the names of
    theirs. BUSI's images without a lesion are left aside, as the paper's counts imply.
    """
    sets: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in entries:
        if split_extension(entry.name)[1]:
            sets[_which(posixpath.dirname(entry.name))].append(entry)
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for name, expected in EXPECTED.items():
        found, wrong = find_pairs(sets[name])
        problems += wrong
        if len(found) != expected:
            text = f"expected {expected} pairs, found {len(found)}: unpack it into a folder"
            problems.append(Problem("error", "set incomplete", name, text))
        for pair in found:
            stem = posixpath.basename(pair.name)
            pairs.append(Pair(f"{name}/{stem}", pair.images, pair.masks, name, group=stem))
    aside = {
        "normal": ("left aside", "an image without a lesion"),
        "": ("file skipped", "expected a folder named after its set: busi, busis or udiat"),
    }
    for which, (kind, text) in aside.items():
        problems += [Problem("note", kind, entry.name, text) for entry in sets[which]]
    return pairs, problems


def _which(folders: str) -> str:
    kinds = [part.lower() for part in folders.split("/") if part.lower() in _CLASSES]
    if kinds:
        return "normal" if kinds[-1] == "normal" else "busi"
    return "busis" if _BUSIS.search(folders) else "udiat" if _UDIAT.search(folders) else ""
