"""Match the masks of one folder with its images by their names."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from feda3i.reading.file_list import FileEntry
from feda3i.reading.names import image_keys, mask_keys, mask_word
from feda3i.reading.problems import Problem

Files = dict[str, list[FileEntry]]


@dataclass(frozen=True)
class Matched:
    """One case: the stem that names it, its image (or channels) and its masks."""

    stem: str
    images: tuple[FileEntry, ...]
    masks: tuple[FileEntry, ...]


def match(
    images: Files, masks: Files, *, named: bool = False, channels: bool = False
) -> tuple[list[Matched], list[Problem]]:
    """Match stems: exactly, then without the word for a mask, then more loosely.

    Images and masks are files by stem, perhaps with folders before it. ``named``: masks are known
    by their names alone, because they lie beside the images, so the whole stem of a mask is not
    tried. ``channels``: several images of one stem are channels, not a mistake.
    """
    owners, problems = _owners(images, masks, named)
    taken: dict[str, list[str]] = defaultdict(list)
    for stem, files in sorted(masks.items()):
        if len(files) > 1:
            problems.append(_twice("mask", files, images.get(owners.get(stem, ""), ())))
        elif stem in owners:
            taken[owners[stem]].append(stem)
    spoken = set(owners.values()) | {p.name for p in problems}
    found = []
    for stem, files in sorted(images.items()):
        words = {mask_word(mask) for mask in taken[stem]}
        if len(files) > 1 and not channels:
            problems.append(_twice("image", files, [masks[mask][0] for mask in taken[stem]]))
        elif len(words) > 1:
            problems.append(_two_kinds([masks[mask][0] for mask in taken[stem]], files[0]))
        elif taken[stem]:
            found.append(Matched(stem, tuple(files), tuple(masks[mask][0] for mask in taken[stem])))
        elif stem not in spoken:
            text = "there is no mask of this name"
            problems += [Problem("error", "mask missing", file.name, text) for file in files]
    return found, problems


def _owners(
    images: Mapping[str, Sequence[FileEntry]], masks: Mapping[str, Sequence[FileEntry]], named: bool
) -> tuple[dict[str, str], list[Problem]]:
    """Return the image of each mask that has one, and what is wrong with the other masks."""
    keys = {stem: [*([] if named else [stem]), *mask_keys(stem)] for stem in masks}
    exact = {stem: next((key for key in keys[stem] if key in images), None) for stem in masks}
    owners = {stem: key for stem, key in exact.items() if key is not None}
    problems = []
    waiting = sorted(masks.keys() - owners.keys())
    # An image with a mask of its own name is no candidate where names are read more freely.
    free = sorted(images.keys() - set(owners.values()))
    for level in _levels(list(images), free) if waiting else ():
        for stem in tuple(waiting):
            fits = sorted({i for key in keys[stem] for i in level.get(key.casefold(), ())})
            if len(fits) == 1:
                owners[stem] = fits[0]
            elif fits:
                problems.append(_two_images(masks[stem][0], [images[i][0] for i in fits]))
            if fits:
                waiting.remove(stem)
    text = "there is no image of this name"
    problems += [Problem("error", "image missing", f.name, text) for s in waiting for f in masks[s]]
    return owners, problems


def _levels(images: Sequence[str], free: Sequence[str]) -> Iterator[Mapping[str, list[str]]]:
    """Yield ways to name the images, strictest first: key without case -> stems."""
    ways: tuple[Callable[[str], list[str]], ...] = (
        lambda stem: [stem],  # without regard to case
        lambda stem: image_keys(stem)[0],  # img_7 for 7_mask
        lambda stem: image_keys(stem)[1],  # bus_7 for mask_7
        lambda stem: [posixpath.basename(stem)],  # the mask lies in another folder below masks/
        lambda stem: [stem[: len(stem) - len(posixpath.basename(stem))]],  # 'mask' in its folder
    )
    for number, keys_of in enumerate(ways):
        level: dict[str, list[str]] = defaultdict(list)
        for stem in images if number == 0 else free:
            for key in keys_of(stem):
                level[key.casefold()].append(stem)
        yield level


def _twice(what: str, files: Sequence[FileEntry], others: Sequence[FileEntry]) -> Problem:
    """Report files of which only one was expected, and those that become unusable."""
    names = " and ".join(file.name for file in files)
    left = f"; not used either: {', '.join(other.name for other in others)}" if others else ""
    text = f"expected one {what} of this name, found {names}{left}"
    return Problem("error", f"two {what}s of one name", files[0].name, text)


def _two_images(mask: FileEntry, images: Sequence[FileEntry]) -> Problem:
    names = " or to ".join(image.name for image in images[:3])
    more = f" (or {len(images) - 3} more)" if len(images) > 3 else ""
    text = f"it may belong to {names}{more}: rename one, or give a CSV table"
    return Problem("error", "mask of two images", mask.name, text)


def _two_kinds(masks: Sequence[FileEntry], image: FileEntry) -> Problem:
    names = " and ".join(mask.name for mask in masks)
    text = f"{names} both fit: move one elsewhere, or give a CSV table"
    return Problem("error", "masks of two kinds", image.name, text)
