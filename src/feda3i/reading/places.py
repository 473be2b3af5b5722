"""What the folders of a file say about it: image or mask, site, train or test."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from feda3i.reading.names import FOLDERS, SPLITS, Role

# nnU-Net writes role and split in one word.
NNUNET: dict[str, tuple[Role, str]] = {
    "imagestr": ("images", "train"),
    "labelstr": ("masks", "train"),
    "imagests": ("images", "test"),
    "labelsts": ("masks", "test"),
}
_EXACT = {role: re.compile(words, re.IGNORECASE) for role, words in FOLDERS.items()}
_MORE: dict[Role, str] = {**FOLDERS, "masks": f"{FOLDERS['masks']}|lesions?"}
_WORDED = {
    role: re.compile(rf"(?:(.+)[-_ ](?:{words})|(?:{words})[-_ ](.+))", re.IGNORECASE)
    for role, words in _MORE.items()
}


@dataclass(frozen=True)
class Place:
    """One way to read a path."""

    branch: str
    """The folders that images and masks have in common: they name site or source, and split."""
    role: Role  # whether the file is an image or a mask
    inner: str = ""  # folders below the one that says so
    how: Literal["exact", "nnunet", "worded", "plain"] = "exact"
    """``"exact"`` (``images/``), ``"nnunet"`` (``imagesTr/``), ``"worded"`` (``x_images/``) or
    ``"plain"`` (a file that lies directly in the branch, beside a folder of masks)."""


def places_of(name: str) -> list[Place]:
    """Return all ways to read a file's path, the deepest folder first.

    >>> places_of("north/images/deep/a.png")[0]
    Place(branch='north', role='images', inner='deep', how='exact')
    >>> [p.branch for p in places_of("X/labelsTr/a.nii.gz")], places_of("a.png")[0].how
    (['X/train', 'X/labelsTr'], 'plain')
    """
    folder = posixpath.dirname(name)
    folders = folder.split("/") if folder else []
    found = []
    for depth in range(len(folders) - 1, -1, -1):
        above, inner = folders[:depth], "/".join(folders[depth + 1 :])
        own = folders[depth]
        exact = [role for role, words in _EXACT.items() if words.fullmatch(own)]
        if own.lower() in NNUNET:
            role, split = NNUNET[own.lower()]
            found.append(Place("/".join([*above, split]), role, inner, "nnunet"))
        elif exact:
            found.append(Place("/".join(above), exact[0], inner))
        else:
            found += _worded(above, own, inner)
    return [*found, Place(folder, "images", "", "plain")]


def choose(names: Iterable[str]) -> dict[str, Place | None]:
    """Return how to read each file: the deepest place whose branch has both images and masks."""
    ways = {name: places_of(name) for name in names}
    known = {(place.branch, place.role) for places in ways.values() for place in places}

    def is_whole(place: Place) -> bool:
        return {(place.branch, "images"), (place.branch, "masks")} <= known

    return {name: next(filter(is_whole, places), None) for name, places in ways.items()}


def place_of(branch: str) -> tuple[str, str]:
    """Return source and split that the folders of a branch stand for.

    >>> place_of("train"), place_of("clinic/test"), place_of("busi/images")
    (('', 'train'), ('clinic', 'test'), ('busi', ''))
    """
    parts = [part for part in branch.split("/") if part]
    splits = [SPLITS[part.lower()] for part in parts if part.lower() in SPLITS]
    silent = (part.lower() in SPLITS or _EXACT["images"].fullmatch(part) for part in parts)
    source = "/".join(part for part, is_silent in zip(parts, silent, strict=True) if not is_silent)
    return source, splits[-1] if splits else ""


def _worded(above: list[str], own: str, inner: str) -> list[Place]:
    """Return the places of ``x_images`` or ``masks-x``; an ``x`` that repeats its parent goes."""
    found = []
    for role, pattern in _WORDED.items():
        match = pattern.fullmatch(own)
        if match:
            rest = match[1] or match[2]
            repeats = bool(above) and rest.lower().startswith(above[-1].lower())
            branch = "/".join(above if repeats else [*above, rest])
            found.append(Place(branch, role, inner, "worded"))
    return found
