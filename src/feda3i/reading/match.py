"""Match the masks of one folder with its images by their names."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from feda3i.reading.file_list import FileEntry
from feda3i.reading.names import image_keys, mask_keys
from feda3i.reading.problems import Problem

Files = dict[str, list[FileEntry]]  # by their stems, perhaps with folders before them


@dataclass(frozen=True)
class Pair:
    """One case: its files, and where it belongs."""

    name: str  # unique in the set: folders and stem as its owner calls them
    images: tuple[FileEntry, ...]  # several: the channels (nnU-Net) or the slices of a DICOM series
    masks: tuple[FileEntry, ...]  # several are merged
    source: str = ""
    site: str = ""
    split: str = ""  # ``"train"``, ``"test"``, ``"validation"`` or ``""`` (to be drawn)
    group: str = ""  # cases of one group stay on the same side of the split
    kind: str = "picture"  # ``"picture"``, ``"volume"`` or ``"series"`` (of DICOM slices)
    annotators: tuple[tuple[str, tuple[FileEntry, ...]], ...] = ()  # and the masks of each
    consensus: Literal["", "majority", "staple"] = ""  # how their masks become one
    id: str = ""  # a safe name, given when all cases are known
    part: int | None = None  # which slice of its volume the case is

    @property
    def short(self) -> str:
        """Return the source and the last part of the name, from which the id is made."""
        stem = posixpath.basename(self.name)
        return f"{self.source}/{stem}" if self.source else stem

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """Return the images and masks, those of all annotators among them."""
        return (*self.images, *self.masks, *(f for _, own in self.annotators for f in own))


# How images are named where no mask has the same stem, strictest way first.
_WAYS: tuple[Callable[[str], list[str]], ...] = (
    lambda stem: [stem],  # without regard to case
    image_keys,  # bus_7 for mask_7
    lambda stem: [posixpath.basename(stem)],  # the mask lies in another folder below masks/
    lambda stem: [stem[: len(stem) - len(posixpath.basename(stem))]],  # 'mask' in its folder
)


def match(
    images: Files, masks: Files, *, named: bool = False, channels: bool = False
) -> tuple[list[Pair], list[Problem]]:
    """Match stems: exactly, then without the word for a mask, then more loosely.

    ``named``: masks lie beside the images, so the whole stem of a mask is not tried. ``channels``:
    several images of one stem are channels.
    """
    owners, problems = _owners(images, masks, named)
    taken: dict[str, list[str]] = defaultdict(list)
    for stem, files in sorted(masks.items()):
        if len(files) > 1:
            problems += _unclear(
                "two masks of one name", files, images.get(owners.get(stem, ""), ())
            )
        elif stem in owners:
            taken[owners[stem]].append(stem)
    pairs = []
    for stem, files in sorted(images.items()):
        drawn = [masks[mask][0] for mask in taken[stem]]
        if len(files) > 1 and not channels:
            problems += _unclear("two images of one name", files, drawn)
        elif len({re.sub(r"[-_ ]?\d+$", "", mask) for mask in taken[stem]}) > 1:
            problems += _unclear("masks of two kinds", drawn, files)
        elif drawn:
            pairs.append(Pair(stem, tuple(files), tuple(drawn)))
        elif stem not in owners.values():
            problems += _missing("mask", files)
    return pairs, problems


def _owners(images: Files, masks: Files, named: bool) -> tuple[dict[str, str], list[Problem]]:
    """Return the image of each mask that has one, and what is wrong with the other masks."""
    keys = {stem: [*([] if named else [stem]), *mask_keys(stem)] for stem in masks}
    exact = {stem: next((key for key in keys[stem] if key in images), None) for stem in masks}
    owners = {stem: key for stem, key in exact.items() if key is not None}
    problems = []
    waiting = sorted(masks.keys() - owners.keys())
    # An image with a mask of its own name is no candidate where names are read more freely.
    free = sorted(images.keys() - set(owners.values()))
    for keys_of in _WAYS if waiting else ():
        level: dict[str, set[str]] = defaultdict(set)
        for stem in images if keys_of is _WAYS[0] else free:
            for key in keys_of(stem):
                level[key.casefold()].add(stem)
        for stem in tuple(waiting):
            fits = sorted({i for key in keys[stem] for i in level.get(key.casefold(), ())})
            if len(fits) == 1:
                owners[stem] = fits[0]
            elif fits:
                names = " or ".join(images[i][0].name for i in fits[:3])
                text = f"it may belong to {names}: rename one, or give a CSV table"
                problems += [
                    Problem("error", "mask of two images", f.name, text) for f in masks[stem]
                ]
            if fits:
                waiting.remove(stem)
    return owners, [*problems, *(one for s in waiting for one in _missing("image", masks[s]))]


def _missing(what: str, files: Iterable[FileEntry]) -> list[Problem]:
    text = f"there is no {what} of this name"
    return [Problem("error", f"{what} missing", file.name, text) for file in files]


def _unclear(
    kind: str, files: Sequence[FileEntry], others: Iterable[FileEntry] = ()
) -> list[Problem]:
    """Report files of which only one was expected, and those that become unusable."""
    names = " and ".join(file.name for file in files)
    text = f"found {names}: rename or move one, or give a CSV table"
    return [Problem("error", kind, file.name, text) for file in (*files, *others)]
