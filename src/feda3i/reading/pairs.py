"""Find which mask belongs to which image in folders of any common layout."""

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from feda3i.reading.file_list import FileEntry
from feda3i.reading.match import Files, Pair, match
from feda3i.reading.names import (
    DICOM,
    FOLDERS,
    PICTURES,
    SPLITS,
    UNREAD,
    VOLUMES,
    Role,
    group_of,
    mask_keys,
    split_extension,
)
from feda3i.reading.nnunet import join_channels
from feda3i.reading.problems import Problem

# nnU-Net writes role and split in one word.
_NNUNET: dict[str, tuple[Role, str]] = {
    "imagestr": ("images", "train"),
    "labelstr": ("masks", "train"),
    "imagests": ("images", "test"),
    "labelsts": ("masks", "test"),
}
# "images", "x_images" or "images_x": what is left names the source
_FOLDERS = {
    role: re.compile(rf"(?:(.+)[-_ ])?(?:{words})|(?:{words})[-_ ](.+)", re.IGNORECASE)
    for role, words in FOLDERS.items()
}


@dataclass(frozen=True)
class Place:
    """One way to read the folders of a file."""

    branch: str  # folders that images and masks have in common: site or source, and split
    role: Role
    inner: str = ""  # folders below the one that says the role
    is_nnunet: bool = False
    may_be_case: bool = False  # whether the branch may stand for a case


@dataclass
class _Branch:
    """Images and masks by stem."""

    images: Files = field(default_factory=lambda: defaultdict(list))
    masks: Files = field(default_factory=lambda: defaultdict(list))
    is_nnunet: bool = False
    may_be_case: bool = False
    is_beside: bool = False  # masks lie beside their images


def find_pairs(
    entries: Iterable[FileEntry], group: str | None = None
) -> tuple[list[Pair], list[Problem]]:
    """Pair images with masks in every branch of a tree; branches may have different layouts.

    Every picture or volume is in a pair or in a problem.
    """
    files, problems = _readable(entries)
    files, slices = _fold_series(files)
    pairs: list[Pair] = []
    branches = _branches(files)
    for name, branch in sorted(branches.items()):
        images, masks = branch.images, branch.masks
        if branch.is_nnunet:
            images, wrong = join_channels(images, masks)
            problems += wrong
        found, lost = match(images, masks, named=branch.is_beside, channels=branch.is_nnunet)
        problems += lost
        source, split = place_of(name)
        pairs += [
            replace(
                pair,
                name=posixpath.join(name, pair.name),
                source=source,
                split=split,
                group=posixpath.join(source, group_of(pair.name, group)),
                kind=kind_of(pair.images[0].name),
            )
            for pair in found
        ]
    # nnU-Net sets without labelsTs have all masks in Tr: their test cases are drawn.
    free = {place_of(b)[0] for b, own in branches.items() if own.is_nnunet}
    free -= {pair.source for pair in pairs if pair.split == "test"}
    pairs = [replace(pair, split="") if pair.source in free else pair for pair in pairs]
    loose = {place_of(b)[0] for b, own in branches.items() if own.may_be_case}
    return _unfold_series(_fold_case_folders(pairs, loose), problems, slices)


def kind_of(name: str) -> str:
    """Return the kind of file by its ending."""
    ending = split_extension(name)[1]
    return "volume" if ending in VOLUMES else "series" if ending in DICOM else "picture"


def place_of(branch: str) -> tuple[str, str]:
    """Return source and split that the folders of a branch stand for."""
    parts = [part for part in branch.split("/") if part]
    splits = [SPLITS[part.lower()] for part in parts if part.lower() in SPLITS]
    images = re.compile(FOLDERS["images"], re.IGNORECASE)
    source = [p for p in parts if p.lower() not in SPLITS and not images.fullmatch(p)]
    return "/".join(source), splits[-1] if splits else ""


def places_of(name: str) -> list[Place]:
    """Return all ways to read a file's path, the deepest folder first."""
    folder = posixpath.dirname(name)
    folders = folder.split("/") if folder else []
    found = []
    for depth, own in reversed(list(enumerate(folders))):
        above, inner = folders[:depth], "/".join(folders[depth + 1 :])
        if own.lower() in _NNUNET:
            role, split = _NNUNET[own.lower()]
            found.append(Place("/".join([*above, split]), role, inner, is_nnunet=True))
            continue
        for role, words in _FOLDERS.items():
            if match := words.fullmatch(own):
                more = [part for part in match.groups() if part]
                branch = "/".join([*above, *more])
                found.append(Place(branch, role, inner, may_be_case=bool(more)))
    return [*found, Place(folder, "images", may_be_case=True)]


def _branches(files: Sequence[FileEntry]) -> dict[str, _Branch]:
    """Sort files by the deepest of their folders whose branch has images and masks, or by name."""
    ways = {entry: places_of(entry.name) for entry in files}
    known = {(place.branch, place.role) for places in ways.values() for place in places}
    branches: dict[str, _Branch] = defaultdict(_Branch)
    unsaid: dict[str, Files] = defaultdict(lambda: defaultdict(list))
    for entry, places in ways.items():
        folder, stem = posixpath.split(split_extension(entry.name)[0])
        for place in places:
            if {(place.branch, "images"), (place.branch, "masks")} <= known:
                branch = branches[place.branch]
                side = branch.images if place.role == "images" else branch.masks
                side[posixpath.join(place.inner, stem)].append(entry)
                branch.is_nnunet |= place.is_nnunet
                branch.may_be_case |= place.may_be_case
                break
        else:
            unsaid[folder][stem].append(entry)
    for folder, stems in unsaid.items():
        branch = branches[folder]
        worded = _worded(stems)
        for stem, entries in stems.items():
            (branch.masks if stem in worded else branch.images)[stem] += entries
        branch.is_beside = branch.may_be_case = True
    return branches


def _worded(stems: Files) -> set[str]:
    """Return the stems in one folder that are masks by name: ``a_mask``, ``mask_a``, ``mask``."""
    keys = {stem: mask_keys(stem) for stem in stems}
    # 'lesion_7' is a mask by its name, but not if there is a 'lesion_7_mask'.
    bases = {key.casefold() for own in keys.values() for key in own}
    worded = {stem for stem in stems if keys[stem] and stem.casefold() not in bases}
    # A folder of 'lesion_1', 'lesion_2', ...: the word says nothing.
    return set() if len(worded) == len(stems) else worded


def _readable(entries: Iterable[FileEntry]) -> tuple[list[FileEntry], list[Problem]]:
    """Return pictures and volumes; report those of formats that are not read."""
    files, problems = [], []
    for entry in entries:
        if split_extension(entry.name)[1]:
            files.append(entry)
        elif entry.name.lower().endswith(UNREAD):
            text = f"save it as one of {', '.join((*PICTURES, *VOLUMES))}"
            problems.append(Problem("error", "format not read", entry.name, text))
    return files, problems


def _fold_series(files: Sequence[FileEntry]) -> tuple[list[FileEntry], dict[str, list[FileEntry]]]:
    """Let the DICOM slices of a folder, unless it is ``images/``, stand for one file."""
    held: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in files:
        held[posixpath.dirname(entry.name)].append(entry)
    folded: list[FileEntry] = []
    slices = {}
    for folder, own in held.items():
        found = [entry for entry in own if split_extension(entry.name)[1] in DICOM]
        places = places_of(own[0].name)
        if len(found) < 2 or (len(places) > 1 and not places[0].inner):
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
    told = [
        replace(problem, name=name)
        for problem in problems
        for name in [file.name for file in slices.get(problem.name, ())] or [problem.name]
    ]
    return whole, told


def _fold_case_folders(pairs: Sequence[Pair], loose: set[str]) -> list[Pair]:
    """Treat folders as cases or patients, not sites, if half of those side by side hold one case.

    The folder above then names the source, and cases of one folder stay together.
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
    return [
        replace(
            pair,
            name=pair.name if held[pair.source] > 1 else posixpath.dirname(pair.name),
            source=posixpath.dirname(pair.source),
            group=pair.source,
        )
        if pair.source in cases
        else pair
        for pair in pairs
    ]
