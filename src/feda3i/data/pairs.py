"""Find which mask belongs to which image, in folders, archives and CSV tables."""

from __future__ import annotations

import csv
import io
import posixpath
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from feda3i.data.archive import Entry
from feda3i.data.names import (
    DICOM,
    IMAGE_FOLDERS,
    MASK_FOLDERS,
    NIFTI,
    SPLITS,
    group_of,
    split_extension,
    strip_mask_ending,
)
from feda3i.data.problems import Problem
from feda3i.errors import DataError

COLUMNS = ("image", "mask", "name", "source", "site", "split", "group")


@dataclass(frozen=True)
class Pair:
    """Files of one case (or of one volume that is cut into several).

    Parameters
    ----------
    name
        The case's own name, unique in the set: folders and stem as its owner calls them.
    images, masks
        One file each, as a rule; several masks are merged, several images are slices of a volume.
    split
        ``"train"``, ``"test"`` or ``""`` (to be drawn).
    group
        Cases of one group stay on the same side of the split.
    kind
        ``"picture"``, ``"nifti"`` or ``"dicom"``.
    """

    name: str
    images: tuple[Entry, ...]
    masks: tuple[Entry, ...]
    source: str = ""
    site: str = ""
    split: str = ""
    group: str = ""
    kind: str = "picture"

    @property
    def short(self) -> str:
        """Return what the case's id is made of: its source and the last part of its name."""
        stem = posixpath.basename(self.name)
        return f"{self.source}/{stem}" if self.source else stem


def find_pairs(
    entries: Iterable[Entry], group: str | None = None
) -> tuple[list[Pair], list[Problem]]:
    """Pair ``images/`` with ``masks/`` wherever in the tree these folders are.

    Folders called train or test above them set the split, all others name the source:
    ``train/images``, ``SITE/images`` and ``SITE/train/images`` are all understood. A mask has the
    name of its image, possibly with an ending such as ``_mask``, ``_mask_1`` or ``_segmentation``.
    """
    images: dict[str, dict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    masks: dict[str, dict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    problems = []
    for entry in entries:
        place = _place(entry.name)
        stem, extension = split_extension(entry.name)
        if place is None or extension in DICOM:
            continue
        branch, role, inner = place
        if not extension:
            text = "not a picture or volume by its ending"
            problems.append(Problem("note", "file skipped", entry.name, text))
            continue
        target = images if role == "images" else masks
        target[branch][posixpath.join(inner, posixpath.basename(stem))].append(entry)
    pairs: list[Pair] = []
    for branch in sorted({*images, *masks}):
        found, wrong = match(images[branch], masks[branch])
        problems += wrong
        pairs += [_pair(branch, stem, one, many, group) for stem, one, many in found]
    return pairs, problems


def match(
    images: dict[str, list[Entry]], masks: dict[str, list[Entry]]
) -> tuple[list[tuple[str, Entry, tuple[Entry, ...]]], list[Problem]]:
    """Match stems: exactly, then without the mask's ending, then without regard to case."""
    problems = []
    taken: dict[str, list[Entry]] = defaultdict(list)
    folded: dict[str, list[str]] = defaultdict(list)
    for stem in images:
        folded[stem.casefold()].append(stem)
    for stem, files in sorted(masks.items()):
        owner = _owner(stem, images, folded)
        if owner is None:
            text = "there is no image of this name"
            problems += [Problem("error", "image missing", file.name, text) for file in files]
        elif len(files) > 1:
            names = ", ".join(posixpath.basename(file.name) for file in files)
            text = f"expected one mask of this name, found {names}"
            problems.append(Problem("error", "two masks of one name", files[0].name, text))
        else:
            taken[owner] += files
    found = []
    for stem, files in sorted(images.items()):
        if len(files) > 1:
            names = ", ".join(posixpath.basename(file.name) for file in files)
            text = f"expected one image of this name, found {names}"
            problems.append(Problem("error", "two images of one name", files[0].name, text))
        elif stem not in taken:
            text = "there is no mask of this name"
            problems.append(Problem("error", "mask missing", files[0].name, text))
        else:
            found.append((stem, files[0], tuple(taken[stem])))
    return found, problems


def _owner(stem: str, images: Container[str], folded: Mapping[str, list[str]]) -> str | None:
    tries = (stem, strip_mask_ending(stem))
    exact = [name for name in tries if name in images]
    near = [folded[n.casefold()][0] for n in tries if len(folded.get(n.casefold(), ())) == 1]
    return next(iter(exact + near), None)


def read_table(
    table: bytes, entries: Sequence[Entry], folder: str = "", group: str | None = None
) -> tuple[list[Pair], list[Problem]]:
    """Read pairs from a CSV table with the columns image and mask, and perhaps more.

    Paths are relative to the table and must stay inside its folder; several masks of one image are
    separated by ``|``. Further columns: name, source, site, split (train or test), group (patient).
    """
    if not has_columns(table):
        raise DataError("the table needs a first line with the columns image and mask")
    rows = csv.DictReader(io.StringIO(_text(table)))
    known = {entry.name: entry for entry in entries}
    pairs, problems = [], []
    for number, row in enumerate(rows, start=2):
        cells = {key: (row.get(key) or "").strip() for key in COLUMNS}
        paths = [cells["image"], *cells["mask"].split("|")]
        files = [posixpath.normpath(posixpath.join(folder, p.strip())) for p in paths]
        missing = [path for path, file in zip(paths, files, strict=True) if file not in known]
        if missing:
            text = f"line {number}: no such file inside the folder: {', '.join(missing)}"
            problems.append(Problem("error", "file missing", missing[0] or "?", text))
            continue
        if cells["split"] and cells["split"].lower() not in SPLITS:
            text = f"line {number}: expected split train or test, found '{cells['split']}'"
            problems.append(Problem("error", "split unknown", cells["image"], text))
            continue
        stem, extension = split_extension(cells["image"])
        name = cells["name"] or stem
        pairs.append(
            Pair(
                name=name,
                images=(known[files[0]],),
                masks=tuple(known[file] for file in files[1:]),
                source=cells["source"],
                site=cells["site"],
                split=SPLITS.get(cells["split"].lower(), ""),
                group=cells["group"] or _group(stem, group),
                kind=kind_of(extension),
            )
        )
    return pairs, problems


def has_columns(table: bytes) -> bool:
    """Return whether the first line of a table names the columns image and mask."""
    return {"image", "mask"} <= set(csv.DictReader(io.StringIO(_text(table))).fieldnames or ())


def kind_of(extension: str) -> str:
    """Return the kind of file by its ending."""
    return "nifti" if extension in NIFTI else "dicom" if extension in DICOM else "picture"


def place_of(branch: str) -> tuple[str, str]:
    """Return source and split that the folders above ``images/`` stand for.

    >>> place_of("train"), place_of("clinic/test"), place_of("busi")
    (('', 'train'), ('clinic', 'test'), ('busi', ''))
    """
    parts = [part for part in branch.split("/") if part]
    splits = [SPLITS[part.lower()] for part in parts if part.lower() in SPLITS]
    source = "/".join(part for part in parts if part.lower() not in SPLITS)
    return source, splits[-1] if splits else ""


def _place(name: str) -> tuple[str, str, str] | None:
    """Return what is above the images or masks folder, which of the two it is, what is below."""
    folders = posixpath.dirname(name).split("/")
    for depth in range(len(folders) - 1, -1, -1):
        lower = folders[depth].lower()
        role = "images" if lower in IMAGE_FOLDERS else "masks" if lower in MASK_FOLDERS else ""
        if role:
            return "/".join(folders[:depth]), role, "/".join(folders[depth + 1 :])
    return None


def _pair(
    branch: str, stem: str, image: Entry, masks: tuple[Entry, ...], group: str | None
) -> Pair:
    source, split = place_of(branch)
    return Pair(
        name=posixpath.join(branch, stem),
        images=(image,),
        masks=masks,
        source=source,
        split=split,
        group=posixpath.join(source, _group(stem, group)),
        kind=kind_of(split_extension(image.name)[1]),
    )


def _group(stem: str, pattern: str | None) -> str:
    return group_of(stem, pattern) if pattern else group_of(stem)


def _text(table: bytes) -> str:
    return table.decode("utf-8-sig", "replace")
