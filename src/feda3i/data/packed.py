"""The packed cache: the pixels of all cases in one file, mapped to memory, beside a JSON header.

The key is made of the names, sizes and times of all files and of the options: a file that was
replaced by one of the same size and date is noticed, too. A cache that is cut short, altered or
from another version is built again, never trusted. It holds pixels of patients as the folder does:
it lies in the folder itself (``.feda3i-cache``) where that can be written, else in the user's cache
folder, readable by the user alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from feda3i.core.ragged import Ragged, Stack
from feda3i.files import PART, hash_text, write_file
from feda3i.pool import ordered_map
from feda3i.reading.listing import Listed, Listing
from feda3i.reading.problems import CaseError, Problem, raise_errors

FORMAT = "feda3i-packed-4"
FOLDER = ".feda3i-cache"
_SIZES = ("spacing", "zoom")
_BLOCK = 4096
_BLOCKS = 64
_MAX_AGE = 30 * 24 * 3600  # seconds
_MAX_PART_AGE = 24 * 3600
_BATCH = 16  # cases that a worker takes at a time

Bytes = NDArray[np.uint8]
Shape = tuple[int, ...]
Sizes = NDArray[np.float64] | None


@dataclass(frozen=True)
class Packed:
    """Arrays of all cases of a listing, and the sizes of their pixels, ``(case, dimension)``.

    ``spacing`` is in millimetres, ``zoom`` in pixels of the original files.
    """

    images: Stack
    masks: Stack
    spacing: Sizes
    zoom: Sizes
    notes: tuple[Problem, ...] = ()


def pack_cases(listing: Listing, cache: bool | Path = True) -> Packed:
    """Return the pixels of all cases: from the cache if it is good, else decoded and cached.

    ``cache`` is ``True``, ``False`` (keep the arrays in memory) or the folder to use.
    """
    place = _place(listing, cache)
    found = None if place is None else _load(place)
    return _build(listing, place) if found is None else found


def cache_folder(root: Path) -> Path:
    """Return where the cache of a data folder lies."""
    # The mode is looked at, too: root may write everywhere, but a folder without write permission
    # was made read-only on purpose.
    writable = os.access(root, os.W_OK) and bool(root.stat().st_mode & 0o222)
    return root / FOLDER if writable else user_cache_path("feda3i", appauthor=False)


def _place(listing: Listing, cache: bool | Path) -> Path | None:
    """Return the path, without ending, of the cache files for exactly these files and options."""
    if cache is False:
        return None
    folder = cache_folder(listing.root) if cache is True else Path(cache)
    options = json.dumps([FORMAT, listing.options.record()], sort_keys=True)
    ids = (case.id for case in listing.cases)
    family = hash_text(str(listing.root.resolve()), options, *ids)[:16]
    state = hash_text(*(_state(case) for case in listing.cases))[:16]
    return folder / f"{family}-{state}"


def _state(case: Listed) -> str:
    """Return what tells the files of a case from others of the same names, sizes and dates.

    Nobody can set when a file last changed (``st_ctime``).
    """
    files = [*case.pair.images, *case.pair.masks]
    told = [(file.name, file.size, file.mtime, _changed(file.place)) for file in files]
    return json.dumps([told, case.pair.consensus])


def _changed(path: str) -> int:
    with contextlib.suppress(OSError):  # named when it is read
        return os.stat(path).st_ctime_ns
    return 0


def _file(place: Path, kind: str) -> Path:
    return place.with_name(f"{place.name}-{kind}")


def _load(place: Path) -> Packed | None:
    """Return the cached cases, or nothing if anything about them is not as written."""
    try:
        header = json.loads(_file(place, "header.json").read_text("utf-8"))
        data = np.memmap(_file(place, "cases.bin"), np.uint8, mode="r")
        images, masks = _parts(np.asarray(data), header["shapes"], np.dtype(header["dtype"]))
        if header["sample"] != [_sample(images.flat), _sample(masks.flat)]:
            return None
        spacing, zoom = (None if (s := header[k]) is None else np.array(s) for k in _SIZES)
        notes = tuple(Problem(*note) for note in header["notes"])
        os.utime(_file(place, "header.json"))  # still in use: see _sweep
        return Packed(_stack(images), _stack(masks), spacing, zoom, notes)
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _parts(data: Bytes, shapes: Sequence[Shape], dtype: np.dtype[Any]) -> tuple[Ragged, Ragged]:
    """Return the images that lie one after the other in these bytes, and the masks after them."""
    if len(data) != _room_of(shapes, dtype):
        raise ValueError("cut short")
    sizes = np.array(shapes, np.int64)
    end = len(data) - int(sizes[:, :-1].prod(axis=1).sum())
    return Ragged(data[:end].view(dtype), sizes), Ragged(data[end:], sizes[:, :-1])


def _room_of(shapes: Sequence[Shape], dtype: np.dtype[Any]) -> int:
    """Return the bytes of images of these shapes and their masks."""
    pixels = (math.prod(shape[:-1]) * (shape[-1] * dtype.itemsize + 1) for shape in shapes)
    return sum(pixels)


def _stack(cases: Ragged) -> Stack:
    """Return cases as one array if they are of one size."""
    first = cases.shapes[0]
    return cases if (cases.shapes != first).any() else cases.flat.reshape(len(cases), *first)


def _sample(array: NDArray[Any]) -> str:
    """Return a hash of evenly spread blocks, the first and last among them: cheap at any size."""
    flat = array.reshape(-1)
    starts = np.linspace(0, max(0, len(flat) - _BLOCK), _BLOCKS, dtype=np.int64)
    sha = hashlib.sha256()
    for start in np.unique(starts):
        sha.update(np.ascontiguousarray(flat[start : start + _BLOCK]).data)
    return sha.hexdigest()


def _build(listing: Listing, place: Path | None) -> Packed:
    """Decode the first case (or all, where each may differ) to learn the sizes, then all cases."""
    shapes, dtype = _form(listing)
    part = place and place.with_name(f"{PART}{os.getpid()}-{place.name}.bin")
    try:
        data = _room(part, _room_of(shapes, dtype))
        images, masks = _parts(data, shapes, dtype)
        spacing, zoom, problems = _fill(listing, images, masks)
        raise_errors(problems, listing.root)
        header = {
            "shapes": shapes,
            "dtype": dtype.str,
            "sample": [_sample(images.flat), _sample(masks.flat)],
            "spacing": None if spacing is None else spacing.tolist(),
            "zoom": None if zoom is None else zoom.tolist(),
            "notes": [[p.level, p.kind, p.name, p.text] for p in problems],
        }
        if place is not None and part is not None and isinstance(data, np.memmap):
            with contextlib.suppress(OSError):  # the cases are here, with or without a cache
                data.flush()
                part.replace(_file(place, "cases.bin"))
                # Last: without the header nothing is read.
                write_file(_file(place, "header.json"), json.dumps(header).encode(), durable=False)
                _sweep(place)
                if found := _load(place):  # mapped by the name that the file now has
                    return found
        return Packed(_stack(images), _stack(masks), spacing, zoom, tuple(problems))
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def _room(part: Path | None, size: int) -> Bytes:
    """Return the bytes of a new file, mapped, or (no cache, no room on the disk) of memory."""
    if part is not None:
        with contextlib.suppress(OSError):
            part.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "r+b") as file:
                if hasattr(os, "posix_fallocate"):  # a full disk is an error here, no crash later
                    os.posix_fallocate(handle, 0, size)
                return np.memmap(file, np.uint8, mode="r+", shape=(size,))
    return np.zeros(size, np.uint8)


def _form(listing: Listing) -> tuple[list[Shape], np.dtype[Any]]:
    """Return the shape of every image, and the type of all."""
    options, count = listing.options, len(listing.cases)

    def look(place: int) -> tuple[Shape, np.dtype[Any]] | Problem:
        case = listing.cases[place]
        try:
            image = listing.read(case).image
        except CaseError as error:
            return error.problem(case.name)
        return image.shape, image.dtype

    found: list[Any] = []
    if not options.keep_values and (options.size is not None or options.volumes is None):
        # Every case must be as the first one is that can be read.
        readable = (one for one in map(look, range(count)) if not isinstance(one, Problem))
        found = list(islice(readable, 1)) * count
    found = found or _each(look, count)
    raise_errors([one for one in found if isinstance(one, Problem)], listing.root)
    shapes = [shape for shape, _ in found]
    if options.volumes is None or len(set(map(len, shapes))) > 1:
        shapes = shapes[:1] * count  # others are named when they are read
    return shapes, np.result_type(*{dtype for _, dtype in found})


def _each(work: Callable[[int], Any], count: int) -> list[Any]:
    return list(ordered_map(work, range(count), None, way="threads", batch=_BATCH))


def _fill(listing: Listing, images: Ragged, masks: Ragged) -> tuple[Sizes, Sizes, list[Problem]]:
    shapes = [tuple(shape) for shape in images.shapes.tolist()]

    def work(place: int) -> tuple[list[tuple[float, ...]], list[Problem]]:
        case = listing.cases[place]
        try:
            raw = listing.read(case)
            if raw.image.shape != shapes[place]:
                text = f"{raw.image.shape[:-1]}, the first has {shapes[0][:-1]}: give a size"
                raise CaseError("sizes differ between cases", text)
        except CaseError as error:
            return [(), ()], [error.problem(case.name)]
        images[place], masks[place] = raw.image, raw.mask
        notes = [Problem("note", kind, case.name, text) for kind, text in raw.notes]
        return [raw.spacing, raw.zoom], notes

    done = _each(work, len(shapes))
    spacing, zoom = (_known([sizes[k] for sizes, _ in done], len(shapes[0]) - 1) for k in (0, 1))
    if zoom is not None and (zoom == 1).all():
        zoom = None
    return spacing, zoom, [problem for _, problems in done for problem in problems]


def _known(sizes: list[tuple[float, ...]], dimensions: int) -> Sizes:
    """Return the sizes of all cases' pixels, or nothing if that of any case is unknown."""
    known = all(len(size) == dimensions for size in sizes)
    return np.array(sizes, np.float64) if known else None


def _sweep(place: Path) -> None:
    """Drop what an older state of the same files left behind, and what nobody used for long."""
    family = place.name.split("-")[0]
    for header in place.parent.glob("*-header.json"):
        name = header.name.removesuffix("-header.json")
        stale = name.startswith(family) and name != place.name
        if stale or time.time() - header.stat().st_mtime > _MAX_AGE:
            for file in place.parent.glob(f"{name}-*"):
                file.unlink(missing_ok=True)
    for part in place.parent.glob(f"{PART}*"):  # of processes that were killed
        if time.time() - part.stat().st_mtime > _MAX_PART_AGE:
            part.unlink(missing_ok=True)
