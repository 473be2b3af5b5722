"""Load a folder of images and masks as cases, or as a federation of sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from feda3i.data.base import Cases, Federation, Index
from feda3i.data.cards import Card
from feda3i.data.decode import Options
from feda3i.data.listing import Listed, Listing, list_cases
from feda3i.data.names import unique_ids
from feda3i.data.packed import Packed, pack
from feda3i.data.partition import Parts, divide
from feda3i.data.problems import raise_errors
from feda3i.data.resize import Aspect
from feda3i.data.split import TEST_SHARE, split_cases
from feda3i.errors import DataError, RecipeError
from feda3i.seeding import rng


def load_folder(
    path: str | Path,
    *,
    size: int | None = None,
    channels: int | None = None,
    classes: Sequence[str] = ("lesion",),
    aspect: Aspect = "squeeze",
    split: str | None = None,
    workers: int | None = None,
    cache: bool | Path = True,
) -> Cases:
    """Return the cases of a folder, prepared or plain.

    Parameters
    ----------
    path
        A folder made by ``feda3i prepare``, or any tree with ``images/`` and ``masks/``.
    size
        Side in pixels; ``None`` takes the files as they are, which must then be of one size.
    channels
        1, 3 or ``None`` (colour if any image has it).
    classes
        Names of the foreground classes; with one, masks are cut at half of their maximum.
    aspect
        For pictures that are not square: ``squeeze``, ``crop`` or ``pad``.
    split
        ``"train"`` or ``"test"`` for that part only (as the folder divides it).
    workers
        Processes (or threads) that decode; one per core by default.
    cache
        Keep a packed copy for the next start (``True``), none (``False``), or in this folder.
    """
    options = Options(size=size, aspect=aspect, channels=channels, classes=tuple(classes))
    listing = _list(Path(path), options)
    if split is not None:
        listing = listing.take([case for case in listing.cases if case.split == split])
        if not listing.cases:
            raise DataError(f"'{path}' has no case in the split '{split}'")
    return _cases(listing, pack(listing, workers=workers, cache=cache))


def folder(
    path: str | Path | None = None,
    *,
    sites: int | None = None,
    cases: int | None = None,
    test: int | None = None,
    size: int | None = None,
    channels: int | None = None,
    classes: Sequence[str] = ("lesion",),
    aspect: Aspect = "squeeze",
    partition: str | None = None,
    alpha: float = 0.5,
    seed: int = 0,
    split_seed: int = 0,
    test_share: float = TEST_SHARE,
    group: str | None = None,
    workers: int | None = None,
    cache: bool | Path = True,
) -> Federation:
    """Return a federation made of a folder, prepared or plain.

    Parameters
    ----------
    path, size, channels, classes, aspect, workers, cache
        As for :func:`load_folder`.
    sites
        Number of sites; not needed with real sites (partition ``by-folder``).
    cases, test
        At most so many cases per site, and test cases in all; drawn, not cut off.
    partition
        ``iid``, ``by-source``, ``dirichlet`` or ``by-folder``; by default ``by-folder`` if there
        are several folders and ``sites`` is not given, else ``iid``.
    alpha
        Of the dirichlet partition: small values make unequal sites.
    seed
        Of the partition.
    split_seed, test_share, group
        For folders without train/test: the seed of the split, the share of each source set aside
        for testing, and the pattern that tells which cases belong together (by default a trailing
        ``-l``, ``-r`` or ``-s`` is a side of the same patient).
    """
    place = need_path(path, None)
    options = Options(size=size, aspect=aspect, channels=channels, classes=tuple(classes))
    listing = _list(place, options, group)
    train, tests = _divide_split(listing, test_share, split_seed)
    parts, name = _divide_sites(train, partition, sites, alpha, seed)
    packed = pack(listing.take([*train, *tests]), workers=workers, cache=cache)
    both = _cases(listing.take([*train, *tests]), packed)
    for limit in (cases, test):
        if limit is not None and limit < 1:
            raise RecipeError(
                f"expected at least one case per site and one test case, found {limit}"
            )
    parts = {s: _draw(part, cases, seed, "cases", s) for s, part in parts.items()}
    used = np.sort(np.concatenate(list(parts.values())))
    wanted = _draw(np.arange(len(tests)), test, seed, "test") + len(train)
    return Federation(
        train=_take(both, used),
        sites={site: np.searchsorted(used, part) for site, part in parts.items()},
        test=_take(both, wanted),
        classes=listing.options.classes,
        notes=_notes(listing, name, seed, alpha, packed),
    )


def need_path(path: str | Path | None, card: Card | None) -> Path:
    """Return the path of the data, or say how to get and prepare them."""
    if path is not None:
        return Path(path).expanduser()
    if card is None:
        raise DataError("no data folder given: add path=FOLDER")
    raise DataError(
        f"no data folder given. {card.text()}\n"
        f"then: feda3i prepare {card.name} SRC DST, and add data=DST "
        "(or data=synthetic for drawn images that need no download)"
    )


def _list(root: Path, options: Options, group: str | None = None) -> Listing:
    listing, problems = list_cases(root, options, group)
    raise_errors(problems, root)
    if not listing.cases:
        raise DataError(f"'{root}' holds no case")
    return listing


def _cases(listing: Listing, packed: Packed) -> Cases:
    return Cases(
        ids=tuple(case.id for case in listing.cases),
        images=packed.images,
        masks=packed.masks,
        sources=tuple(case.source for case in listing.cases),
        spacing=packed.spacing,
    )


def _divide_split(listing: Listing, share: float, seed: int) -> tuple[list[Listed], list[Listed]]:
    given = [case.split for case in listing.cases]
    if not all(given):
        sources = [case.source for case in listing.cases]
        groups = [case.group for case in listing.cases]
        given = split_cases(sources, groups, given, share=share, seed=seed)
    sides = {
        side: [c for c, s in zip(listing.cases, given, strict=True) if s == side]
        for side in ("train", "test")
    }
    for side, found in sides.items():
        if not found:
            raise DataError(f"'{listing.root}' has no {side} cases: add some, or remove the split")
    return sides["train"], sides["test"]


def _divide_sites(
    train: Sequence[Listed], partition: str | None, sites: int | None, alpha: float, seed: int
) -> tuple[Parts, str]:
    folders = [case.site or case.source for case in train]
    name = partition or ("by-folder" if sites is None and len(set(folders)) > 1 else "iid")
    parts = divide(
        name,
        sources=[case.source for case in train],
        folders=folders,
        sites=sites,
        rng=rng(seed, "partition"),
        alpha=alpha,
    )
    # Names of sites become names of files elsewhere, so folder names are made safe, too.
    return dict(zip(unique_ids(list(parts)), parts.values(), strict=True)), name


def _draw(part: Index, limit: int | None, seed: int, *scope: str) -> Index:
    if limit is None or len(part) <= limit:
        return part
    return np.sort(rng(seed, "draw", *scope).permutation(part)[:limit])


def _take(cases: Cases, index: Index) -> Cases:
    """Return cases at sorted positions; an unbroken range stays mapped to memory, uncopied."""
    start, stop = int(index[0]), int(index[-1]) + 1
    if stop - start != len(index):
        return cases.take(index)
    return replace(
        cases,
        ids=cases.ids[start:stop],
        images=cases.images[start:stop],
        masks=cases.masks[start:stop],
        sources=cases.sources[start:stop],
        spacing=None if cases.spacing is None else cases.spacing[start:stop],
    )


def _notes(
    listing: Listing, partition: str, seed: int, alpha: float, packed: Packed
) -> dict[str, Any]:
    notes: dict[str, Any] = {
        "path": str(listing.root),
        "partition": partition,
        "seed": seed,
        "options": listing.options.record(),
        "mended": len(packed.notes),
    }
    if partition == "dirichlet":
        notes["alpha"] = alpha
    if listing.manifest:
        notes["sha256"] = listing.manifest["sha256"]
        notes["licence"] = listing.manifest["card"]["licence"]
    return notes
