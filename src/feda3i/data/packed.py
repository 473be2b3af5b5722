"""The packed cache: one array file of all images and one of all masks, mapped to memory.

Where cases have sizes of their own the arrays are flat, and the header has the sizes.

The key is made of the names, sizes and times of all files, of samples of their bytes and of the
options: a file that was replaced by one of the same size and date is noticed, too. A cache that is
cut short, altered or from another version is built again, never trusted. It holds pixels of
patients as the folder does: it lies in the folder itself (``.feda3i-cache``) where that can be
written, else in the user's cache folder, readable by the user alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from feda3i.core.ragged import Ragged, Stack
from feda3i.files import PART, hash_text, write_file
from feda3i.pool import cores, ordered_map
from feda3i.reading.listing import Listed, Listing
from feda3i.reading.problems import CaseError, Problem, raise_errors

FORMAT = "feda3i-packed-3"
FOLDER = ".feda3i-cache"
_SIZES = ("spacing", "zoom")
_BLOCK = 4096
_BLOCKS = 64
_MAX_AGE = 30 * 24 * 3600  # seconds
_MAX_PART_AGE = 24 * 3600
_FEW = 64  # cases per thread below which a thread does not pay
_BATCH = 16  # cases that a worker takes at a time


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


def pack_cases(
    listing: Listing, *, workers: int | None = None, cache: bool | Path = True
) -> Packed:
    """Return the pixels of all cases: from the cache if it is good, else decoded and cached.

    ``cache`` is ``True``, ``False`` (keep the arrays in memory) or the folder to use.
    """
    place = _place(listing, cache)
    if place is not None:
        found = _load(place)
        if found is not None:
            return found
    return _build(listing, place, workers or cores())


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
    """Return what tells the files of a case from other files of the same names, sizes and dates."""
    assert case.pair is not None
    places = [entry.place for entry in (*case.pair.images, *case.pair.masks)]
    return json.dumps([case.files, case.pair.consensus, [_touch(place) for place in places]])


def _touch(path: str) -> tuple[int, str]:
    """Return when a file last changed, which nobody can set, and a hash of three blocks of it.

    Some 20 microseconds per file: the plain calls of the system, because there are thousands.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError:  # named when it is read
        return 0, ""
    try:
        info = os.fstat(handle)
        parts = [os.read(handle, _BLOCK)]
        for start in (info.st_size // 2, info.st_size - _BLOCK):
            if start >= _BLOCK:
                os.lseek(handle, start, os.SEEK_SET)
                parts.append(os.read(handle, _BLOCK))
        return info.st_ctime_ns, hashlib.sha256(b"".join(parts)).hexdigest()
    finally:
        os.close(handle)


def _file(place: Path, kind: str) -> Path:
    return place.with_name(f"{place.name}-{kind}")


def _load(place: Path) -> Packed | None:
    """Return the cached arrays, or nothing if anything about them is not as written."""
    try:
        header = json.loads(_file(place, "header.json").read_text("utf-8"))
        arrays = {}
        for kind in ("images", "masks"):
            mapped = np.load(_file(place, f"{kind}.npy"), mmap_mode="r", allow_pickle=False)
            found = [list(mapped.shape), mapped.dtype.str, _sample(mapped)]
            if found != header[kind]:
                return None
            arrays[kind] = _shaped(np.asarray(mapped), header.get(f"{kind}_sizes"))
        spacing, zoom = (
            None if header[kind] is None else np.array(header[kind], np.float64) for kind in _SIZES
        )
        notes = tuple(Problem(*note) for note in header["notes"])
        os.utime(_file(place, "header.json"))  # still in use: see _sweep
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None
    return Packed(arrays["images"], arrays["masks"], spacing, zoom, notes)


def _shaped(array: NDArray[Any], sizes: Sequence[Sequence[int]] | None) -> Stack:
    """Return the array itself, or the cases of these sizes that it holds one after the other."""
    return array if sizes is None else Ragged(array, np.array(sizes, np.int64))


def _sample(array: NDArray[Any]) -> str:
    """Return a hash of evenly spread blocks, the first and last among them: cheap at any size."""
    flat = array.reshape(-1)
    starts = np.linspace(0, max(0, len(flat) - _BLOCK), _BLOCKS, dtype=np.int64)
    sha = hashlib.sha256()
    for start in np.unique(starts):
        sha.update(np.ascontiguousarray(flat[start : start + _BLOCK]).data)
    return sha.hexdigest()


@dataclass(frozen=True)
class Form:
    """What is stored of one kind: the size of every case and the type of the values."""

    cases: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the array's shape: ``(case, ...)``, or flat where sizes differ."""
        if len(set(self.cases)) == 1:
            return (len(self.cases), *self.cases[0])
        return (sum(math.prod(case) for case in self.cases),)

    @cached_property
    def starts(self) -> list[int]:
        """Return where each case begins, in values."""
        return [0, *itertools.accumulate(math.prod(case) for case in self.cases)]


Forms = dict[str, Form]
Arrays = dict[str, NDArray[Any]]


def _build(listing: Listing, place: Path | None, workers: int) -> Packed:
    """Decode the first case (or all, where each may differ) to learn the form, then all cases."""
    forms = _forms(listing, workers)
    with _room(place, forms) as (parts, arrays):
        spacing, zoom, problems = _fill(listing, forms, arrays, workers)
        raise_errors(problems, listing.root)
        if place is not None and parts:
            with contextlib.suppress(OSError):  # the cases are here, with or without a cache
                _finish(place, parts, forms, arrays, (spacing, zoom), problems)
                found = _load(place)  # mapped by the names that the files now have
                if found is not None:
                    return found
    stacks = {kind: _shaped(array, _own_sizes(forms[kind])) for kind, array in arrays.items()}
    return Packed(stacks["images"], stacks["masks"], spacing, zoom, tuple(problems))


@contextlib.contextmanager
def _room(place: Path | None, forms: Forms) -> Iterator[tuple[dict[str, Path], Arrays]]:
    """Yield files with temporary names, mapped to memory, or (no cache, no room) memory alone.

    Files that got no other name are removed at the end.
    """
    parts: dict[str, Path] = {}
    arrays: Arrays = {}
    try:
        if place is not None:
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                for kind, form in forms.items():
                    name = f"{PART}{os.getpid()}-{place.name}-{kind}.npy"
                    parts[kind] = place.with_name(name)
                    arrays[kind] = _map(parts[kind], form)
        if len(arrays) < len(forms):
            arrays = {kind: np.zeros(form.shape, form.dtype) for kind, form in forms.items()}
        yield (parts if isinstance(arrays["masks"], np.memmap) else {}), arrays
    finally:
        for path in parts.values():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _map(path: Path, form: Form) -> NDArray[Any]:
    """Return a new file of its full size, mapped: a full disk is an error here, no crash later."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w+b", buffering=0) as file:
        head = {"descr": form.dtype.str, "fortran_order": False, "shape": form.shape}
        np.lib.format.write_array_header_1_0(file, head)
        size = max(1, math.prod(form.shape) * form.dtype.itemsize)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, file.tell(), size)
        else:
            file.truncate(file.tell() + size)
    return np.lib.format.open_memmap(path, mode="r+")


def _own_sizes(form: Form) -> list[list[int]] | None:
    """Return the size of every case; nothing if all have one size."""
    return None if len(form.shape) > 1 else [list(case) for case in form.cases]


def _forms(listing: Listing, workers: int) -> Forms:
    options, count = listing.options, len(listing.cases)

    def look(place: int) -> tuple[tuple[int, ...], str] | Problem:
        case = listing.cases[place]
        try:
            image = listing.read(case).image
        except CaseError as error:
            return error.problem(case.name)
        return image.shape, image.dtype.str

    found: list[Any] = []
    if not options.keep_values and (options.size is not None or options.volumes is None):
        # Every case must be as the first one is that can be read.
        readable = (one for one in map(look, range(count)) if not isinstance(one, Problem))
        found = list(islice(readable, 1)) * count
    found = found or _each(look, count, workers)
    raise_errors([one for one in found if isinstance(one, Problem)], listing.root)
    shapes = tuple(shape for shape, _ in found)
    if options.volumes is None and len(set(shapes)) > 1:
        shapes = shapes[:1] * len(shapes)  # pictures of several sizes are named when they are read
    dtype = np.result_type(*{np.dtype(kind) for _, kind in found})
    return {
        "images": Form(shapes, dtype),
        "masks": Form(tuple(shape[:-1] for shape in shapes), np.dtype(np.uint8)),
    }


def _each(work: Callable[[int], Any], count: int, workers: int) -> list[Any]:
    crew = max(min(workers, count // _FEW), 1)
    return list(ordered_map(work, range(count), crew, way="threads", batch=_BATCH))


def _fill(
    listing: Listing, forms: Forms, arrays: Arrays, workers: int
) -> tuple[Sizes, Sizes, list[Problem]]:
    shapes = forms["images"].cases
    flat = {kind: array.reshape(-1) for kind, array in arrays.items()}

    def work(place: int) -> tuple[list[tuple[float, ...]], list[Problem]]:
        case = listing.cases[place]
        try:
            raw = listing.read(case)
            if raw.image.shape != shapes[place]:
                text = f"{raw.image.shape[:-1]}, the first has {shapes[0][:-1]}: give a size"
                raise CaseError("sizes differ between cases", text)
            for kind, pixels in (("images", raw.image), ("masks", raw.mask)):
                start, stop = forms[kind].starts[place : place + 2]
                flat[kind][start:stop] = pixels.reshape(-1)
        except CaseError as error:
            return [(), ()], [error.problem(case.name)]
        notes = [Problem("note", kind, case.name, text) for kind, text in raw.notes]
        return [raw.spacing, raw.zoom], notes

    done = _each(work, len(listing.cases), workers)
    spacing, zoom = (_known([sizes[k] for sizes, _ in done], len(shapes[0]) - 1) for k in (0, 1))
    if zoom is not None and (zoom == 1).all():
        zoom = None
    return spacing, zoom, [problem for _, problems in done for problem in problems]


def _known(sizes: list[tuple[float, ...]], dimensions: int) -> Sizes:
    """Return the sizes of all cases' pixels, or nothing if that of any case is unknown."""
    known = all(len(size) == dimensions for size in sizes)
    return np.array(sizes, np.float64) if known else None


def _finish(
    place: Path,
    parts: dict[str, Path],
    forms: Forms,
    arrays: Arrays,
    sizes: tuple[Sizes, Sizes],
    notes: list[Problem],
) -> None:
    """Name the files, and write the header last: without it nothing is read."""
    header: dict[str, Any] = {
        **{k: None if s is None else s.tolist() for k, s in zip(_SIZES, sizes, strict=True)},
        "notes": [[n.level, n.kind, n.name, n.text] for n in notes],
    }
    for kind, array in arrays.items():
        header[kind] = [list(array.shape), array.dtype.str, _sample(array)]
        header[f"{kind}_sizes"] = _own_sizes(forms[kind])
        if isinstance(array, np.memmap):
            array.flush()
        parts[kind].replace(_file(place, f"{kind}.npy"))
    write_file(_file(place, "header.json"), json.dumps(header).encode(), durable=False)
    _sweep(place)


def _sweep(place: Path) -> None:
    """Drop what an older state of the same files left behind, and what nobody used for long."""
    family = place.name.split("-")[0]
    for header in place.parent.glob("*-header.json"):
        name = header.name.removesuffix("-header.json")
        stale = name.startswith(family) and name != place.name
        if stale or time.time() - header.stat().st_mtime > _MAX_AGE:
            for kind in ("header.json", "images.npy", "masks.npy"):
                with contextlib.suppress(OSError):
                    _file(place.with_name(name), kind).unlink()
    for part in place.parent.glob(f"{PART}*"):  # of processes that were killed
        if time.time() - part.stat().st_mtime > _MAX_PART_AGE:
            part.unlink(missing_ok=True)
