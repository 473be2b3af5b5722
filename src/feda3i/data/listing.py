"""List the cases of a folder, prepared or plain, before any pixel is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from feda3i.data.archive import Entry, list_entries
from feda3i.data.base import Images, Masks
from feda3i.data.decode import Options, RawCase, decode_pair, fit
from feda3i.data.files import hash_pixels
from feda3i.data.names import unique_ids
from feda3i.data.pairs import Pair, find_pairs
from feda3i.data.picture import Note, is_grey
from feda3i.data.prepared import (
    Row,
    index_problems,
    is_prepared,
    is_unfinished,
    read_index,
    read_manifest,
    read_prepared,
)
from feda3i.data.problems import CaseError, Problem
from feda3i.errors import DataError

LAYOUT = (
    "expected a folder made by 'feda3i prepare', or images/ and masks/ with equal file names, "
    "perhaps inside train/ and test/ or in one folder per site or source"
)


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
    row: Row | None = None


@dataclass(frozen=True)
class Listing:
    """The cases of one folder in the order of their ids, and how to read them."""

    root: Path
    cases: tuple[Listed, ...]
    options: Options
    manifest: dict[str, Any] | None = None

    def read(self, case: Listed) -> tuple[Images, Masks, tuple[float, ...], tuple[Note, ...]]:
        """Return image ``(*space, channel)``, mask ``(*space)``, spacing (mm), what was mended."""
        if case.row is not None:
            raw = self._read_prepared(case.row)
        else:
            assert case.pair is not None  # a case is listed by its row or by its pair
            images = [_bytes(entry) for entry in case.pair.images]
            masks = [_bytes(entry) for entry in case.pair.masks]
            raw = next(decode_pair(case.pair, images, masks, self.options))
        return raw.image, raw.mask, raw.spacing, raw.notes

    def _read_prepared(self, row: Row) -> RawCase:
        image, mask = read_prepared(self.root, row.id, self.volumes)
        if hash_pixels(image) != row.image_sha256 or hash_pixels(mask) != row.mask_sha256:
            raise CaseError("changed since preparation", "the pixels do not hash as the index says")
        spacing = tuple(float(s) for s in row.spacing_mm.split())
        raw = RawCase(image, mask, spacing=spacing)
        return raw if self.options.size is None else fit(raw, self.options)

    @property
    def volumes(self) -> bool:
        """Return whether the cases have three dimensions."""
        return bool(self.manifest and self.manifest["options"]["volumes"])

    def take(self, cases: Sequence[Listed]) -> Listing:
        """Return the same folder with these cases only, in this order."""
        return replace(self, cases=tuple(cases))


def list_cases(
    root: Path, options: Options, group: str | None = None
) -> tuple[Listing, list[Problem]]:
    """List a prepared folder by its index, any other by its ``images/`` and ``masks/``.

    Parameters
    ----------
    options
        ``channels=None`` is resolved here; a prepared folder knows its own classes and channels.
    group
        Pattern with a ``(?P<group>...)``: cases of one group stay on one side of the split.
    """
    if not root.is_dir():
        raise DataError(f"there is no folder '{root}': {LAYOUT}")
    if is_prepared(root):
        return _list_prepared(root, options)
    if is_unfinished(root):
        raise DataError(f"'{root}' is half prepared: repeat the 'feda3i prepare' command to go on")
    entries, problems = list_entries(root)
    pairs, wrong = find_pairs(entries, group)
    if not pairs and not wrong:
        raise DataError(f"found no images/ and masks/ in '{root}': {LAYOUT}")
    if any(pair.kind != "picture" for pair in pairs):
        raise DataError(
            f"'{root}' holds volumes: cut or convert them first, "
            f"'feda3i prepare folder {root} DST' (--volumes to keep them whole)"
        )
    if options.channels is None:
        options = replace(options, channels=_channels(pairs))
    ids = unique_ids([pair.name for pair in pairs], [pair.short for pair in pairs])
    cases = [
        Listed(i, p.name, p.source, p.site, p.split, p.group, _state((*p.images, *p.masks)), pair=p)
        for i, p in zip(ids, pairs, strict=True)
    ]
    return Listing(root, tuple(sorted(cases, key=lambda c: c.id)), options), problems + wrong


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
    extension = "npy" if made["volumes"] else "png"
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
    return Listing(root, tuple(cases), options, manifest), problems


def _scan(folder: Path) -> dict[str, tuple[int, int]]:
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as found:
        return {f.name: (f.stat().st_size, f.stat().st_mtime_ns) for f in found}


def _state(entries: Sequence[Entry]) -> tuple[tuple[str, int, int], ...]:
    return tuple((entry.name, entry.size, entry.mtime) for entry in entries)


def _channels(pairs: Sequence[Pair]) -> int:
    for pair in pairs:
        try:
            with open(pair.images[0].place, "rb") as file:
                if not is_grey(file):
                    return 3
        except (CaseError, OSError):
            continue  # named when it is read
    return 1


def _bytes(entry: Entry) -> bytes:
    if entry.size == 0:
        raise CaseError("empty file", f"{entry.name} has 0 bytes: copy it again")
    try:
        return Path(entry.place).read_bytes()
    except OSError as error:
        raise CaseError("unreadable file", f"{entry.name}: {error}") from None
