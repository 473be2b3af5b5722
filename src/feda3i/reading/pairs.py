"""Find which mask belongs to which image in folders of any common layout."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from feda3i.reading.file_list import FileEntry
from feda3i.reading.match import Files, Matched, match
from feda3i.reading.names import (
    DICOM,
    PICTURES,
    UNREAD,
    VOLUMES,
    group_of,
    mask_keys,
    split_extension,
)
from feda3i.reading.nnunet import join_channels
from feda3i.reading.places import Place, choose, place_of, places_of
from feda3i.reading.problems import Problem


@dataclass(frozen=True)
class Pair:
    """Files of one case (or of one volume that is cut into several)."""

    name: str  # the case's own name, unique in the set: folders and stem as its owner calls them
    # One file each, as a rule; several masks are merged, several images are the channels of a case
    # (nnU-Net) or the slices of a DICOM series
    images: tuple[FileEntry, ...]
    masks: tuple[FileEntry, ...]
    source: str = ""
    site: str = ""
    split: str = ""  # ``"train"``, ``"test"``, ``"validation"`` or ``""`` (to be drawn)
    group: str = ""  # cases of one group stay on the same side of the split
    kind: str = "picture"  # ``"picture"``, ``"volume"`` or ``"series"`` (of DICOM slices)
    annotators: tuple[tuple[str, tuple[FileEntry, ...]], ...] = ()
    """Who has drawn it, and the masks of each."""
    consensus: Literal["", "majority", "staple"] = ""
    """How the masks of all annotators become one."""

    @property
    def short(self) -> str:
        """Return the source and the last part of the name, from which the id is made."""
        stem = posixpath.basename(self.name)
        return f"{self.source}/{stem}" if self.source else stem


def find_pairs(
    entries: Iterable[FileEntry], group: str | None = None
) -> tuple[list[Pair], list[Problem]]:
    """Pair images with masks in every branch of a tree; branches may have different layouts.

    Folders called train, test or validation set the split, all others name the source. Every
    picture or volume is in a pair or in a problem.
    """
    files, problems = _readable(entries)
    files, slices = _fold_series(files)
    tree = _sorted_into_branches(files)
    pairs: list[Pair] = []
    for branch in sorted({*tree.images, *tree.masks}):
        images, masks = tree.images[branch], tree.masks[branch]
        if branch in tree.channelled:
            images, wrong = join_channels(images, masks)
            problems += wrong
        matched, lost = match(
            images, masks, named=branch in tree.beside, channels=branch in tree.channelled
        )
        problems += lost
        pairs += [_pair(branch, one, group) for one in matched]
    pairs = _free_of_split(pairs, {place_of(branch)[0] for branch in tree.channelled})
    pairs = _fold_case_folders(pairs, {place_of(branch)[0] for branch in tree.loose})
    return _unfold_series(pairs, problems, slices)


@dataclass
class _Tree:
    """Images and masks by branch and stem, and how the branches are laid out."""

    images: dict[str, Files] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    masks: dict[str, Files] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    loose: set[str] = field(default_factory=set)  # a folder may stand for a case
    channelled: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)

    def add(self, entry: FileEntry, place: Place) -> None:
        """Put a file where its folders say."""
        side = self.images if place.role == "images" else self.masks
        stem = posixpath.basename(split_extension(entry.name)[0])
        side[place.branch][posixpath.join(place.inner, stem)].append(entry)
        if place.how in ("worded", "plain"):
            self.loose.add(place.branch)
        if place.how == "nnunet":
            self.channelled.add(place.branch)


def _sorted_into_branches(files: Sequence[FileEntry]) -> _Tree:
    """Sort files by their folders, or by their names where the folders say nothing."""
    tree = _Tree()
    places = choose(entry.name for entry in files)
    unsaid: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in files:
        folder = posixpath.dirname(entry.name)
        place = places[entry.name]
        if place is not None:
            tree.add(entry, place)
        else:
            unsaid[folder].append(entry)
    for folder, found in unsaid.items():
        _part_by_name(found, tree.images[folder], tree.masks[folder])
        tree.beside.add(folder)
        tree.loose.add(folder)
    return tree


def kind_of(extension: str) -> str:
    """Return the kind of file by its ending."""
    return "volume" if extension in VOLUMES else "series" if extension in DICOM else "picture"


def _fold_series(files: Sequence[FileEntry]) -> tuple[list[FileEntry], dict[str, list[FileEntry]]]:
    """Let the DICOM slices of a folder stand for one file that is named like the folder.

    A folder that holds the images of many cases (``images/``) holds one case per file.
    """
    held: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in files:
        held[posixpath.dirname(entry.name)].append(entry)
    folded: list[FileEntry] = []
    slices = {}
    for folder, own in held.items():
        found = [entry for entry in own if split_extension(entry.name)[1] in DICOM]
        place = places_of(own[0].name)[0]
        if len(found) < 2 or (place.how != "plain" and not place.inner):
            folded += own
            continue
        rest = [entry for entry in own if entry not in found]
        name = f"{folder}.dcm" if folder and not rest else posixpath.join(folder, "image.dcm")
        slices[name] = found
        folded += [replace(found[0], name=name), *rest]
    return folded, slices


def _unfold_series(
    pairs: Sequence[Pair], problems: Sequence[Problem], slices: Mapping[str, list[FileEntry]]
) -> tuple[list[Pair], list[Problem]]:
    """Put the slices of series back, so that every file is accounted for."""

    def unfold(files: Sequence[FileEntry]) -> tuple[FileEntry, ...]:
        return tuple(one for file in files for one in slices.get(file.name, [file]))

    whole = [replace(p, images=unfold(p.images), masks=unfold(p.masks)) for p in pairs]
    said = [
        replace(problem, name=name)
        for problem in problems
        for name in [file.name for file in slices.get(problem.name, ())] or [problem.name]
    ]
    return whole, said


def _readable(entries: Iterable[FileEntry]) -> tuple[list[FileEntry], list[Problem]]:
    """Return pictures and volumes; report files that look like one but cannot be read."""
    files, problems = [], []
    for entry in entries:
        extension = split_extension(entry.name)[1]
        if extension:
            files.append(entry)
        elif entry.name.lower().endswith(UNREAD):
            text = f"save it as one of {', '.join((*PICTURES, *VOLUMES))}"
            problems.append(Problem("error", "format not read", entry.name, text))
        elif not extension and any(place.how == "exact" for place in places_of(entry.name)):
            text = "not a picture or volume by its ending"
            problems.append(Problem("note", "file skipped", entry.name, text))
    return files, problems


def _part_by_name(found: Sequence[FileEntry], images: Files, masks: Files) -> None:
    """Separate masks from images in one folder by name: ``a_mask``, ``mask_a``, ``mask``."""
    stems: Files = defaultdict(list)
    for entry in found:
        stems[posixpath.basename(split_extension(entry.name)[0])].append(entry)
    keys = {stem: mask_keys(stem) for stem in stems}
    # 'lesion_7' is a mask by its name, but not if there is a 'lesion_7_mask'.
    folded = {stem.casefold() for stem in stems}
    bases = {key.casefold() for own in keys.values() for key in own if key.casefold() in folded}
    worded = {stem for stem in stems if keys[stem] and stem.casefold() not in bases}
    if len(worded) == len(stems):
        worded = set()  # a folder of 'lesion_1', 'lesion_2', ...: the word says nothing
    for stem, entries in stems.items():
        (masks if stem in worded else images)[stem] += entries


def _pair(branch: str, one: Matched, group: str | None) -> Pair:
    source, split = place_of(branch)
    return Pair(
        name=posixpath.join(branch, one.stem),
        images=one.images,
        masks=one.masks,
        source=source,
        split=split,
        group=posixpath.join(source, group_of(one.stem, group)),
        kind=kind_of(split_extension(one.images[0].name)[1]),
    )


def _free_of_split(pairs: Sequence[Pair], sources: set[str]) -> list[Pair]:
    """Let test cases be drawn in nnU-Net sets without ``labelsTs``: all masks are in Tr."""
    tested = {pair.source for pair in pairs if pair.split == "test"}
    free = sources - tested
    return [replace(pair, split="") if pair.source in free else pair for pair in pairs]


def _fold_case_folders(pairs: Sequence[Pair], loose: set[str]) -> list[Pair]:
    """Treat folders that hold one case (or patient) each as cases, not as sites.

    If at least half of the folders beside each other hold one case only, they all stand for cases
    or patients: the folder above names the source, and cases of one folder stay together.
    """
    held = Counter(pair.source for pair in pairs)
    sisters: dict[str, list[str]] = defaultdict(list)
    for source in sorted(loose & held.keys() - {""}):
        sisters[posixpath.dirname(source)].append(source)
    cases = {
        source
        for found in sisters.values()
        if len(found) > 1 and 2 * sum(held[s] == 1 for s in found) >= len(found)
        for source in found
    }
    return [_folded(pair, held) if pair.source in cases else pair for pair in pairs]


def _folded(pair: Pair, held: Mapping[str, int]) -> Pair:
    name = pair.name if held[pair.source] > 1 else posixpath.dirname(pair.name)
    return replace(
        pair, name=name, source=posixpath.dirname(pair.source), group=pair.source or pair.group
    )
