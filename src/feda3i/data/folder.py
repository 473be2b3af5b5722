"""Load a folder of images and masks as cases, or as a federation of sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from feda3i.core.cases import Cases, Federation, Index
from feda3i.core.resize import Aspect
from feda3i.data.cards import Card
from feda3i.data.division import Division, Validation, as_test, home, list_folder, plan_cases
from feda3i.data.packed import Packed, pack_cases
from feda3i.data.partition import TEST_SHARE
from feda3i.errors import DataError
from feda3i.reading.decode import Options
from feda3i.reading.listing import Listing
from feda3i.reading.usage import Unused

Volumes = Literal["whole", "slices"]
Values = Literal["bytes", "kept"]


def reading_options(
    *,
    size: int | None = None,
    channels: int | None = None,
    classes: Sequence[str] = (),
    aspect: Aspect = "squeeze",
    volumes: Volumes | None = None,
    axis: int = 2,
    values: Values | None = None,
    spacing: Sequence[float] | None = None,
) -> Options:
    """Return what the readers are to do; the arguments are those of :func:`load_folder`."""
    return Options(
        size=size,
        aspect=aspect,
        channels=channels,
        classes=tuple(classes),
        volumes=volumes == "whole",
        axis=axis,
        keep_values=values == "kept" or (values is None and volumes is not None),
        spacing=None if spacing is None else tuple(spacing),
        in_place=volumes is not None,
    )


def load_folder(
    path: str | Path,
    *,
    size: int | None = None,
    channels: int | None = None,
    classes: Sequence[str] = (),
    aspect: Aspect = "squeeze",
    volumes: Volumes | None = None,
    axis: Literal[0, 1, 2] = 2,
    values: Values | None = None,
    spacing: Sequence[float] | None = None,
    split: str | None = None,
    unused: Unused = "error",
    workers: int | None = None,
    cache: bool | Path = True,
) -> Cases:
    """Return the cases of a folder, prepared or plain.

    Parameters
    ----------
    path
        A folder made by ``feda3i prepare``, any tree of images and masks, or a CSV table.
    size
        Side in pixels; ``None``: the files as they are, all of one size.
    channels
        1, 3 or ``None`` (colour if any image has it).
    classes
        Names of the foreground classes; with one, masks are cut at half of their maximum. By
        default as a ``dataset.json`` says, else ``lesion``.
    aspect
        For pictures that are not square: ``squeeze``, ``crop`` or ``pad``.
    volumes
        Read NIfTI and DICOM files where they lie, ``whole`` or as ``slices``; cases then keep their
        own sizes unless ``size`` is given.
    axis
        Axis of a NIfTI array along which its slices lie.
    values
        ``kept``: values of NIfTI, DICOM and deep pictures as in the files (the default with
        ``volumes``); ``bytes``: scaled to 0..255.
    spacing
        Millimetres along each side of a voxel (slice, row, column) to resample to.
    split
        ``"train"`` or ``"test"`` for that part only (as the folder divides it; validation cases
        are test cases if there are no others).
    unused
        ``"error"`` refuses pictures that belong to no case, ``"allow"`` leaves them out.
    workers
        Processes (or threads) that decode; one per core by default.
    cache
        Keep a packed copy for the next start (``True``), none (``False``), or in this folder.
    """
    options = reading_options(
        size=size,
        aspect=aspect,
        channels=channels,
        classes=classes,
        volumes=volumes,
        axis=axis,
        values=values,
        spacing=spacing,
    )
    listing = list_folder(Path(path).expanduser(), options, unused=unused)
    if split is not None:
        sides = as_test(listing.cases)
        found = [case for case, side in zip(listing.cases, sides, strict=True) if side == split]
        listing = listing.take(found)
        if not listing.cases:
            raise DataError(f"'{path}' has no case in the split '{split}'")
    return _cases(listing, pack_cases(listing, workers=workers, cache=cache))


def folder(
    path: str | Path | None = None,
    *,
    sites: int | None = None,
    cases: int | None = None,
    test: int | None = None,
    size: int | None = None,
    channels: int | None = None,
    classes: Sequence[str] = (),
    aspect: Aspect = "squeeze",
    volumes: Volumes | None = None,
    axis: Literal[0, 1, 2] = 2,
    values: Values | None = None,
    spacing: Sequence[float] | None = None,
    partition: str | None = None,
    alpha: float = 0.5,
    seed: int = 0,
    split_seed: int = 0,
    test_share: float = TEST_SHARE,
    group: str | None = None,
    unused: Unused = "error",
    validation: Validation = "auto",
    workers: int | None = None,
    cache: bool | Path = True,
) -> Federation:
    """Return a federation made of a folder, prepared or plain.

    Parameters
    ----------
    path, size, channels, classes, aspect, volumes, axis, values, spacing, unused, workers, cache
        As for :func:`load_folder`.
    sites
        Number of sites; not needed with real sites (partition ``by-folder``).
    cases, test
        At most this many cases per site, and test cases in total; drawn, not cut off.
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
    validation
        What to do with validation cases: ``train`` or ``test`` with them, or (``auto``) test with
        them at sites without test cases and leave them aside at the others.
    """
    options = reading_options(
        size=size,
        aspect=aspect,
        channels=channels,
        classes=classes,
        volumes=volumes,
        axis=axis,
        values=values,
        spacing=spacing,
    )
    plan = plan_cases(
        list_folder(need_path(path, None), options, group, unused),
        sites=sites,
        cases=cases,
        test=test,
        partition=partition,
        alpha=alpha,
        seed=seed,
        split_seed=split_seed,
        test_share=test_share,
        unused=unused,
        validation=validation,
    )
    listing = plan.listing.take([*plan.train, *plan.tests])
    packed = pack_cases(listing, workers=workers, cache=cache)
    both = _cases(listing, packed, plan.homes)
    used = np.sort(np.concatenate(list(plan.parts.values())))
    return Federation(
        train=_take(both, used),
        sites={site: np.searchsorted(used, part) for site, part in plan.parts.items()},
        test=_take(both, plan.wanted + len(plan.train)),
        classes=listing.options.classes,
        notes=_notes(plan, seed, alpha, packed),
    )


def need_path(path: str | Path | None, card: Card | None) -> Path:
    """Return the path of the data, or say how to get and prepare them."""
    if path is not None:
        return Path(path).expanduser()
    if card is None:
        raise DataError(
            "no data given: add data=FOLDER (or data=TABLE.csv, or data=synthetic for drawn cases)"
        )
    raise DataError(
        f"no data folder given. {card.text()}\n"
        f"then: feda3i prepare {card.name} SRC DST, and add data=DST "
        "(or data=synthetic for drawn images that need no download)"
    )


def _cases(listing: Listing, packed: Packed, homes: Mapping[str, str] | None = None) -> Cases:
    names = {h: h for h in map(home, listing.cases)} if homes is None else homes
    sites = tuple(names.get(home(case), home(case)) for case in listing.cases)
    return Cases(
        ids=tuple(case.id for case in listing.cases),
        images=packed.images,
        masks=packed.masks,
        sources=tuple(case.source for case in listing.cases),
        sites=sites if any(sites) and names else (),
        spacing=packed.spacing,
        zoom=packed.zoom,
        groups=tuple(case.group for case in listing.cases),
    )


def _take(cases: Cases, index: Index) -> Cases:
    """Return cases at sorted positions; an unbroken range stays mapped to memory, uncopied."""
    start, stop = int(index[0]), int(index[-1]) + 1
    if stop - start != len(index):
        return cases.take(index)
    return cases.between(start, stop)


def _notes(plan: Division, seed: int, alpha: float, packed: Packed) -> dict[str, Any]:
    listing = plan.listing
    notes: dict[str, Any] = {
        "path": str(listing.root),
        "partition": plan.partition,
        "seed": seed,
        "options": listing.options.record(),
        "mended": len(packed.notes),
        "folders": {u.folder: u.record() for u in listing.usage},
    }
    left = {"cases": plan.dropped, "test": plan.dropped_tests, "validation": plan.aside}
    if any(left.values()):
        notes["left_out"] = {name: count for name, count in left.items() if count}
    if plan.partition == "dirichlet":
        notes["alpha"] = alpha
    if listing.manifest:
        notes["sha256"] = listing.manifest["sha256"]
        notes["licence"] = listing.manifest["card"]["licence"]
    return notes
