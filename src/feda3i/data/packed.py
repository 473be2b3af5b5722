"""The packed cache: the pixels of all cases, mapped to memory, so that they are decoded only once.

One folder of three files (``images.bin``, ``masks.bin``, ``header.json``) for each set of files and
options. It holds pixels of patients as the data folder does: it lies in that folder
(``.feda3i-cache``) where it can be written, else in the user's cache folder, and only the user may
enter it. A cache that is cut short or from another version is built again.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from feda3i.core.ragged import Ragged, Stack
from feda3i.files import PART, make_private
from feda3i.pool import cores, ordered_map
from feda3i.reading.decode import RawCase
from feda3i.reading.listing import Listing
from feda3i.reading.match import Pair
from feda3i.reading.problems import CaseError, Problem, raise_errors

FORMAT = "feda3i-packed-6"
FOLDER = ".feda3i-cache"
_BATCH = 16  # cases that a worker takes at a time
_READERS = 4  # of volumes, at most: each holds several in memory

Header = dict[str, Any]


@dataclass(frozen=True)
class Packed:
    """Arrays of all cases of a listing, and the sizes of their pixels, ``(case, dimension)``."""

    images: Stack
    masks: Stack
    spacing: NDArray[np.float64] | None  # in millimetres
    zoom: NDArray[np.float64] | None  # in pixels of the original files
    mended: int  # how often something had to be corrected


def pack_cases(listing: Listing, cache: bool | Path = True) -> Packed:
    """Return the pixels of all cases: from the cache if there is one, else decoded and cached.

    ``cache`` is ``True``, ``False`` (keep the arrays in memory) or the folder to keep it in.
    """
    if cache is False:
        return _in_memory(listing)
    place = _cache_folder(listing.root) if cache is True else cache
    place = place / FOLDER / _name(listing)
    return _load(place) or _build(listing, place) or _in_memory(listing)


def _cache_folder(root: Path) -> Path:
    """Return the folder for caches of a data folder: itself, if it can be written."""
    # The mode is looked at, too: root may write everywhere, but a folder without write permission
    # was made read-only on purpose.
    is_writable = os.access(root, os.W_OK) and bool(root.stat().st_mode & 0o222)
    return root if is_writable else user_cache_path("feda3i", appauthor=False)


def _name(listing: Listing) -> str:
    """Return the name of the cache of exactly these files and options.

    The first half stands for the names of the files, the second for their state.
    """
    cases = listing.cases
    ids = [case.id for case in cases]
    family = [FORMAT, str(listing.root.resolve()), listing.options.record(), ids]
    state = [[[(f.name, f.size, f.changed) for f in case.files], case.consensus] for case in cases]
    texts = (json.dumps(half, sort_keys=True).encode() for half in (family, state))
    return "-".join(hashlib.sha256(text).hexdigest()[:16] for text in texts)


def _load(place: Path) -> Packed | None:
    """Return the cached cases, or nothing if the files are not as they were written."""
    try:
        header = json.loads((place / "header.json").read_text("utf-8"))
        images = np.memmap(place / "images.bin", np.dtype(header["dtype"]), mode="r")
        masks = np.memmap(place / "masks.bin", np.uint8, mode="r")
        return _packed(header, np.asarray(images), np.asarray(masks))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _build(listing: Listing, place: Path) -> Packed | None:
    """Decode all cases into a new cache; return nothing if there is no room for one.

    What an older state of the same files left behind is dropped.
    """
    try:
        make_private(place.parent)
        with tempfile.TemporaryDirectory(
            prefix=PART, dir=place.parent, ignore_cleanup_errors=True
        ) as name:
            part = Path(name)
            with open(part / "images.bin", "wb") as images, open(part / "masks.bin", "wb") as masks:
                header = _write(listing, images, masks)
            (part / "header.json").write_text(json.dumps(header), "utf-8")
            for old in place.parent.glob(f"{place.name.split('-')[0]}-*"):
                shutil.rmtree(old, ignore_errors=True)
            part.rename(place)
    except OSError:
        return None
    return _load(place)


def _in_memory(listing: Listing) -> Packed:
    images, masks = BytesIO(), BytesIO()
    header = _write(listing, images, masks)
    pixels = np.frombuffer(images.getbuffer(), np.dtype(header["dtype"]))
    return _packed(header, pixels, np.frombuffer(masks.getbuffer(), np.uint8))


def _packed(header: Header, images: NDArray[Any], masks: NDArray[np.uint8]) -> Packed:
    shapes = np.array(header["shapes"], np.int64)
    spacing, zoom = (
        None if header[name] is None else np.array(header[name]) for name in ("spacing", "zoom")
    )
    stacks = _stack(images, shapes), _stack(masks, shapes[:, :-1])
    return Packed(*stacks, spacing, zoom, int(header["mended"]))


def _stack(flat: NDArray[Any], shapes: NDArray[np.int64]) -> Stack:
    """Return the cases that lie one after the other, as one array if they are of one size."""
    if len(flat) != shapes.prod(axis=1).sum():
        raise ValueError("cut short")
    if (shapes != shapes[0]).any():
        return Ragged(flat, shapes)
    return flat.reshape(len(shapes), *shapes[0])


def _write(
    listing: Listing, images: IO[bytes], masks: IO[bytes], kind: np.dtype[Any] | None = None
) -> Header:
    """Write the pixels of all cases one after the other; return what else is known of them.

    ``kind`` is the type of all images; not known at first, so a folder that holds several types is
    read twice.
    """
    shapes: list[tuple[int, ...]] = []
    types: set[np.dtype[Any]] = set()
    sizes: dict[str, list[tuple[float, ...]]] = {"spacing": [], "zoom": []}
    problems: list[Problem] = []
    mended = 0
    for case, found in zip(listing.cases, _read(listing), strict=True):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        shape = found.image.shape
        first = shapes[0] if shapes else shape
        if len(shape) != len(first) or (listing.options.volumes is None and shape != first):
            text = f"{shape[:-1]}, the first has {first[:-1]}: give a size"
            problems.append(Problem("error", "sizes differ between cases", case.name, text))
            continue
        images.write(np.ascontiguousarray(found.image, kind).data)
        masks.write(np.ascontiguousarray(found.mask).data)
        shapes.append(shape)
        types.add(kind or found.image.dtype)
        sizes["spacing"].append(found.spacing)
        sizes["zoom"].append(found.zoom)
        mended += len(found.notes)
    raise_errors(problems, listing.root)
    if len(types) > 1:
        for file in (images, masks):
            file.seek(0)
            file.truncate()
        return _write(listing, images, masks, np.result_type(*types))
    if all(side == 1 for zoom in sizes["zoom"] for side in zoom):
        sizes["zoom"] = [()]  # no case was resized
    return {
        "shapes": shapes,
        "dtype": types.pop().str,
        **{
            # of all cases, or nothing if that of any is unknown
            name: own if all(len(size) == len(shapes[0]) - 1 for size in own) else None
            for name, own in sizes.items()
        },
        "mended": mended,
    }


def _read(listing: Listing) -> Iterator[RawCase | Problem]:
    def read(case: Pair) -> RawCase | Problem:
        try:
            return listing.read(case)
        except CaseError as error:
            return error.problem(case.name)

    batch, readers = (1, min(_READERS, cores())) if listing.options.whole else (_BATCH, None)
    return ordered_map(read, listing.cases, readers, batch)
