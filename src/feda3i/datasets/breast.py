"""Breast ultrasound (the paper's BREAST): BUSI, BUSIS and UDIAT, split 8:2 in each source."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

from feda3i.core.cases import Federation
from feda3i.core.resize import Aspect
from feda3i.data.cards import BREAST, BUSI, BUSIS, UDIAT
from feda3i.data.folder import folder, need_path
from feda3i.data.partition import TEST_SHARE
from feda3i.prepare.work import Prepared, Work, prepare
from feda3i.reading.archive import FileEntry
from feda3i.reading.decode import Options
from feda3i.reading.match import match
from feda3i.reading.names import split_extension
from feda3i.reading.pairs import Pair, find_pairs
from feda3i.reading.problems import Problem
from feda3i.reading.usage import Unused

EXPECTED = {"busi": 647, "busis": 562, "udiat": 163}
NORMALS = 133
_CLASSES = ("benign", "malignant", "normal")
_MASK = re.compile(r"(.*)_mask(?:_\d+)?", re.IGNORECASE)
_BUSIS = re.compile(r"(?:^|[/_ -])busis", re.IGNORECASE)
_UDIAT = re.compile(r"udiat|dataset[_ ]?b(?:/|$)|(?:^|/)bus(?:/|$)", re.IGNORECASE)


def breast(
    path: str | Path | None = None,
    *,
    sites: int = 50,
    cases: int | None = None,
    test: int | None = None,
    size: int | None = None,
    aspect: Aspect = "squeeze",
    partition: str = "by-source",
    alpha: float = 0.5,
    seed: int = 0,
    split_seed: int = 0,
    test_share: float = TEST_SHARE,
    unused: Unused = "error",
    workers: int | None = None,
    cache: bool | Path = True,
) -> Federation:
    """Return BREAST: grey, 50 sites that hold one source each, by default.

    Parameters
    ----------
    path
        What ``feda3i prepare breast`` has written, or a tree ``SOURCE/{images,masks}``.
    sites, cases, test, size, aspect, partition, alpha, seed, split_seed, test_share
        As for :func:`feda3i.data.folder.folder`.
    unused, workers, cache
        As for :func:`feda3i.data.folder.folder`.
    """
    return folder(
        need_path(path, BREAST),
        sites=None if partition == "by-folder" else sites,
        cases=cases,
        test=test,
        size=size,
        channels=1,
        aspect=aspect,
        partition=partition,
        alpha=alpha,
        seed=seed,
        split_seed=split_seed,
        test_share=test_share,
        unused=unused,
        workers=workers,
        cache=cache,
    )


def prepare_breast(
    source: Path,
    target: Path,
    *,
    size: int | None = 256,
    aspect: Aspect = "squeeze",
    normals: bool = False,
    seed: int = 0,
    **work: Unpack[Work],
) -> Prepared:
    """Prepare a folder that holds the three sets as their publishers send them, unpacked or not.

    Parameters
    ----------
    normals
        Keep BUSI's 133 images without lesion (left out by default, as the paper's counts imply).
    seed
        Of the 8:2 split.
    """
    return prepare(
        source,
        target,
        partial(find_breast, normals=normals),
        card=BREAST,
        options=Options(size=size, aspect=aspect, channels=1),
        seed=seed,
        **work,
    )


def find_breast(
    entries: Sequence[FileEntry], normals: bool = False
) -> tuple[list[Pair], list[Problem]]:
    """Pair the files of the three layouts.

    BUSI is known by its folders benign, malignant and normal; BUSIS by a folder with busis in its
    name; UDIAT by a folder called udiat, DatasetB or BUS; the latter two hold ``original/`` and
    ``GT/`` (or other names for images and masks).
    """
    sets: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in entries:
        if split_extension(entry.name)[1]:
            sets[_which(posixpath.dirname(entry.name))].append(entry)
    pairs, problems = _find_busi(sets["busi"], normals)
    for name in ("busis", "udiat"):
        found, wrong = find_pairs(sets[name])
        problems += wrong
        for pair in found:
            stem = posixpath.basename(pair.name)
            pairs.append(Pair(f"{name}/{stem}", pair.images, pair.masks, name, group=stem))
    for entry in sets[""]:
        text = "expected a folder named after its set: busi, busis or udiat"
        problems.append(Problem("note", "file skipped", entry.name, text))
    return pairs, problems + _count(pairs, normals)


def _which(folders: str) -> str:
    if any(part.lower() in _CLASSES for part in folders.split("/")):
        return "busi"
    return "busis" if _BUSIS.search(folders) else "udiat" if _UDIAT.search(folders) else ""


def _find_busi(entries: Sequence[FileEntry], normals: bool) -> tuple[list[Pair], list[Problem]]:
    images: dict[str, list[FileEntry]] = defaultdict(list)
    masks: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in entries:
        parts = posixpath.dirname(entry.name).split("/")
        kind = next(part.lower() for part in reversed(parts) if part.lower() in _CLASSES)
        if kind == "normal" and not normals:
            continue
        stem, _ = split_extension(posixpath.basename(entry.name))
        target = masks if _MASK.fullmatch(stem) else images
        target[f"{kind}/{stem}"].append(entry)
    matched, problems = match(images, masks)
    names = [(one.stem.split("/", 1)[1], one) for one in matched]
    return [Pair(f"busi/{s}", o.images, o.masks, "busi", group=s) for s, o in names], problems


def _count(pairs: Sequence[Pair], normals: bool) -> list[Problem]:
    problems = []
    for card in (BUSI, BUSIS, UDIAT):
        expected = EXPECTED[card.name] + (NORMALS if normals and card is BUSI else 0)
        found = sum(pair.source == card.name for pair in pairs)
        if found != expected:
            text = f"expected {expected} pairs, found {found}; {card.ask}"
            problems.append(Problem("error", "set incomplete", card.name, text))
    return problems


DATASET = breast
