"""List the cases of a folder, prepared or plain, before any pixel is read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from feda3i.core.resize import ASPECTS, resize_spacing
from feda3i.errors import DataError, RecipeError
from feda3i.files import hash_pixels
from feda3i.reading.archive import UNREADABLE, FileEntry, Reader, list_entries, split_archive
from feda3i.reading.csv_table import has_columns, is_table, read_table, read_table_file
from feda3i.reading.decode import DEFAULT_CLASSES, Options, RawCase, decode_pair, resize_case
from feda3i.reading.dicom import find_dicom
from feda3i.reading.names import DICOM, NIFTI, split_extension, unique_ids
from feda3i.reading.nifti import count_slices
from feda3i.reading.nnunet import nnunet_classes
from feda3i.reading.pairs import Pair, find_pairs
from feda3i.reading.picture import is_grey
from feda3i.reading.prepared import (
    IndexRow,
    holds_arrays,
    index_problems,
    is_prepared,
    is_unfinished,
    read_index,
    read_manifest,
    read_prepared,
)
from feda3i.reading.problems import CaseError, Problem
from feda3i.reading.usage import Unused, Usage, judge_unused, usage_of, with_empty

LAYOUT = (
    "expected a folder made by 'feda3i prepare'; images/ and masks/ with equal file names; masks "
    "beside images (a.png, a_mask.png); a folder per case; nnU-Net's imagesTr/ and labelsTr/; all "
    "perhaps in one folder per site or in train/ and test/; or a CSV table of image and mask"
)
TABLE = "index.csv"


@dataclass(frozen=True)
class Listed:
    """One case: its id, where it belongs and its files (name, bytes, time) for the cache's key."""

    id: str
    name: str
    source: str
    site: str
    split: str
    group: str
    files: tuple[tuple[str, int, int], ...]
    pair: Pair | None = None
    row: IndexRow | None = None
    part: int | None = None
    """Which slice of its volume the case is."""


@dataclass(frozen=True)
class Listing:
    """The cases of one folder in the order of their ids, and how to read them."""

    root: Path
    cases: tuple[Listed, ...]
    options: Options
    manifest: dict[str, Any] | None = None
    usage: tuple[Usage, ...] = ()

    def read(self, case: Listed) -> RawCase:
        """Return a case as the options ask for it."""
        if case.row is not None:
            return self._read_prepared(case.row)
        assert case.pair is not None  # a case is listed by its row or by its pair
        if case.part is not None:
            return _slices(case.pair, self.options)[case.part]
        return next(_decoded(case.pair, self.options))

    def _read_prepared(self, row: IndexRow) -> RawCase:
        image, mask = read_prepared(self.root, row.id, self.arrays)
        if hash_pixels(image) != row.image_sha256 or hash_pixels(mask) != row.mask_sha256:
            raise CaseError("changed since preparation", "the pixels' hash differs from the index")
        spacing = tuple(float(s) for s in row.spacing_mm.split())
        zoom = self._zoom(row, mask.shape)
        raw = RawCase(image, mask, spacing=spacing, zoom=zoom)
        keeps_size = self.options.size is None and self.options.spacing is None
        return raw if keeps_size else resize_case(raw, self.options)

    def _zoom(self, row: IndexRow, shape: tuple[int, ...]) -> tuple[float, ...]:
        """Return the size of a prepared pixel in pixels of the published file, if that is known."""
        sides = tuple(int(side) for side in row.original_size.split("x") if side.isdigit())
        aspect = (self.manifest or {}).get("options", {}).get("aspect")
        if aspect not in ASPECTS or len(sides) != len(shape):
            return ()
        return resize_spacing((1.0,) * len(shape), sides, shape, aspect)

    @property
    def volumes(self) -> bool:
        """Return whether the cases have three dimensions."""
        if self.manifest is None:
            return self.options.in_place and self.options.volumes
        return bool(self.manifest["options"]["volumes"])

    @property
    def arrays(self) -> bool:
        """Return whether a prepared set is kept as arrays rather than pictures."""
        return holds_arrays(self.volumes, self.options.channels)

    def take(self, cases: Sequence[Listed]) -> Listing:
        """Return the same folder with these cases only, in this order."""
        return replace(self, cases=tuple(cases))


def list_cases(
    root: Path, options: Options, group: str | None = None, unused: Unused = "error"
) -> tuple[Listing, list[Problem]]:
    """List a prepared folder by its index, any other folder or table by its pairs of files.

    ``channels=None`` and ``classes=()`` among the options are resolved here; a prepared folder
    knows its own. ``group`` is a pattern with a ``(?P<group>...)``: cases of one group stay on one
    side of the split. With ``unused="allow"``, pictures that are in no case are notes, not errors.
    """
    if not root.is_dir() and not is_table(root):
        raise DataError(f"there is no folder or table '{root}': {LAYOUT}")
    if is_prepared(root):
        listing, problems = _list_prepared(root, options)
        return listing, judge_unused(problems, unused)
    if is_unfinished(root):
        raise DataError(f"'{root}' is only half prepared: repeat 'feda3i prepare' to continue")
    entries, pairs, problems = _find(root, group, options)
    if not pairs and not problems:
        raise DataError(f"found no image with a mask in '{root}': {LAYOUT}")
    if not options.in_place:
        _need_pictures(root, pairs, entries)
    options = settle(options, entries, pairs)
    ids = unique_ids([pair.name for pair in pairs], [pair.short for pair in pairs])
    cases: list[Listed] = []
    for i, p in zip(ids, pairs, strict=True):
        case = Listed(i, p.name, p.source, p.site, p.split, p.group, _files(p), pair=p)
        cases += _cut(case, p, options, problems)
    cases.sort(key=lambda case: case.id)
    usage = usage_of(entries, pairs, problems)
    if is_table(root):
        listing = Listing(root.parent, tuple(cases), options, usage=tuple(usage))
    else:
        listing = Listing(root, tuple(cases), options, usage=tuple(with_empty(usage, root)))
    return listing, judge_unused(problems, unused)


def holds_volumes(root: Path) -> bool:
    """Return whether there is a NIfTI or DICOM file in a folder (not a prepared one) or table."""
    if is_table(root):
        text = root.read_bytes().lower()
        return any(ending.encode() in text for ending in (*NIFTI, *DICOM))
    if not root.is_dir() or is_prepared(root):
        return False
    found = (split_extension(entry.name)[1] for entry in list_entries(root)[0])
    return any(ending in (*NIFTI, *DICOM) for ending in found)


def _cut(case: Listed, pair: Pair, options: Options, problems: list[Problem]) -> list[Listed]:
    """Return the slices of a NIfTI volume as cases, or the case itself."""
    if pair.kind != "nifti" or options.volumes:
        return [case]
    try:
        count = count_slices(pair.images[0], options.axis)
    except CaseError as error:
        problems.append(error.problem(case.name))
        return []
    digits = len(str(count - 1))
    group = case.group or case.name  # the slices of one volume stay together
    return [
        replace(case, id=f"{case.id}_z{k:0{digits}d}", group=group, part=k) for k in range(count)
    ]


def _decoded(pair: Pair, options: Options) -> Iterator[RawCase]:
    images = [_bytes(entry) for entry in pair.images]
    masks = [_bytes(entry) for entry in pair.masks]
    return decode_pair(pair, images, masks, options)


@lru_cache(maxsize=1)  # slices are read one after the other
def _slices(pair: Pair, options: Options) -> tuple[RawCase, ...]:
    return tuple(_decoded(pair, replace(options, keep_empty=True)))


def _files(pair: Pair) -> tuple[tuple[str, int, int], ...]:
    return tuple((file.name, file.size, file.mtime) for file in (*pair.images, *pair.masks))


def _find(
    root: Path, group: str | None, options: Options
) -> tuple[list[FileEntry], list[Pair], list[Problem]]:
    """Return the files of a folder or table, their pairs, and what is wrong."""
    if is_table(root):
        pairs, problems = read_table_file(root, group)
        return [], pairs, problems
    entries, problems = list_entries(root)
    pairs, wrong = find_any(entries, group, options.volumes if options.in_place else None)
    text = "unpack it, or read it with 'feda3i prepare folder'"
    packed = [entry.name for entry in entries if split_archive(entry.name)[1]]
    wrong += [Problem("error", "archive not read", name, text) for name in packed]
    return entries, pairs, problems + wrong


def find_any(
    entries: Sequence[FileEntry], group: str | None, volumes: bool | None
) -> tuple[list[Pair], list[Problem]]:
    """Pair files by a table if there is one, else by folders, and DICOM by its references.

    ``volumes`` says whether DICOM series are volumes or slices; ``None``: DICOM is not read.
    """
    with Reader() as reader:
        for entry in entries:
            if entry.name == TABLE and has_columns(data := reader.read(entry)):
                # Other programs write an index.csv, too: without these columns it is none of ours.
                pairs, problems = read_table(data, entries, group)
                return pairs, problems + _unlisted(entries, pairs)
        pairs, problems = find_pairs(entries, group)
        if volumes is not None:
            more, wrong = find_dicom(entries, reader, volumes)
            pairs, problems = pairs + more, problems + wrong
    return pairs, problems


def _unlisted(entries: Sequence[FileEntry], pairs: Sequence[Pair]) -> list[Problem]:
    """Return the pictures and volumes of a folder that its table does not name."""
    known = {file.name for pair in pairs for file in (*pair.images, *pair.masks)}
    text = f"{TABLE} does not name it"
    return [
        Problem("error", "not in index", entry.name, text)
        for entry in entries
        if split_extension(entry.name)[1] and entry.name not in known
    ]


def _need_pictures(root: Path, pairs: Sequence[Pair], entries: Sequence[FileEntry]) -> None:
    volumes = [pair.images[0].name for pair in pairs if pair.kind != "picture"]
    volumes += [entry.name for entry in entries if split_extension(entry.name)[1] in DICOM]
    if volumes:
        raise DataError(
            f"'{root}' holds volumes ({volumes[0]}): 'feda3i check {root}' prints the command to "
            "train on them (feda3i run own-volumes ...). They are read with data.volumes=whole or "
            f"data.volumes=slices, or convert them first, 'feda3i prepare folder {root} DST' "
            "(--volumes to keep them whole)"
        )


def _list_prepared(root: Path, options: Options) -> tuple[Listing, list[Problem]]:
    manifest = read_manifest(root)
    made = manifest["options"]
    if options.channels not in (None, made["channels"]):
        raise DataError(
            f"'{root}' was prepared with {made['channels']} channels, expected {options.channels}: "
            "prepare it again"
        )
    size = None if options.size == made["size"] else options.size
    options = replace(options, size=size, channels=made["channels"], classes=tuple(made["classes"]))
    extension = "npy" if holds_arrays(made["volumes"], made["channels"]) else "png"
    states = {kind: _scan(root / kind) for kind in ("images", "masks")}
    rows = read_index(root)
    cases, problems = [], index_problems(rows, manifest)
    for row in rows:
        file = f"{row.id}.{extension}"
        missing = [kind for kind in states if file not in states[kind]]
        if missing:
            text = f"{missing[0]}/{file} is in the index but not in the folder: prepare again"
            problems.append(Problem("error", "file missing", row.id, text))
            continue
        files = tuple((f"{kind}/{file}", *states[kind][file]) for kind in states)
        cases.append(
            Listed(row.id, row.name, row.source, row.site, row.split, row.group, files, row=row)
        )
    known = {file[0] for case in cases for file in case.files}
    text = "it was not there when the folder was prepared: prepare again"
    strange = [f"{kind}/{f}" for kind in states for f in states[kind] if f"{kind}/{f}" not in known]
    problems += [Problem("error", "not in index", name, text) for name in sorted(strange)]
    usage = (
        Usage("images", images=len(cases), reasons=_strange(strange, "images")),
        Usage("masks", masks=len(cases), reasons=_strange(strange, "masks")),
    )
    return Listing(root, tuple(cases), options, manifest, usage), problems


def _strange(names: Sequence[str], kind: str) -> Counter[str]:
    return Counter("not in index" for name in names if name.startswith(f"{kind}/"))


def _scan(folder: Path) -> dict[str, tuple[int, int]]:
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as found:
        return {f.name: (f.stat().st_size, f.stat().st_mtime_ns) for f in found if f.is_file()}


def settle(options: Options, entries: Sequence[FileEntry], pairs: Sequence[Pair]) -> Options:
    """Fill in what the options leave to the files: classes, and the number of channels."""
    if not options.classes:
        options = replace(options, classes=nnunet_classes(entries) or DEFAULT_CLASSES)
    files = max((len(pair.images) for pair in pairs if pair.kind != "dicom"), default=1)
    if options.channels not in (None, 1, 3, files):
        raise RecipeError(
            f"expected channels 1 (grey), 3 (colour) or {files} (files per case), "
            f"found {options.channels}"
        )
    if options.channels is not None:
        return options
    return replace(options, channels=files if files > 1 else 3 if _is_colour(pairs) else 1)


def _is_colour(pairs: Sequence[Pair]) -> bool:
    """Return whether any picture has colour, by the headers of the files."""
    with Reader() as reader:
        for pair in pairs:
            try:
                if pair.kind == "picture":
                    with reader.open(pair.images[0]) as file:
                        if not is_grey(file):
                            return True
            except (CaseError, *UNREADABLE):
                continue  # named when it is read
    return False


def _bytes(entry: FileEntry) -> bytes:
    with Reader() as reader:
        return reader.read(entry)
