"""Noise on files: a folder of masks, or a data set divided among sites with one annotator each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i import seeding
from feda3i.basics.files import PART
from feda3i.basics.parallel import Progress, cores, ordered_map
from feda3i.basics.writers import write_array
from feda3i.data.division import as_test
from feda3i.data.partition import TEST_SHARE, iid, split_cases
from feda3i.errors import DataError, RecipeError
from feda3i.noise.annotators import Draw, NoiseSetting, annotators_of_setting
from feda3i.noise.model import SIDE, Annotator
from feda3i.noise.noisy_masks import NoisyCase, build_model, noisy_case
from feda3i.reading.decode import Options
from feda3i.reading.listing import Listed, Listing, list_cases
from feda3i.reading.names import folder_name
from feda3i.reading.problems import raise_errors
from feda3i.simulation.mask_files import find_masks, read_mask_file, write_picture, write_table

FileJob = tuple[str, Listing, Annotator | None]
CASES_PER_PROCESS = 64  # fewer are finished before another process has started


@dataclass(frozen=True)
class Drawing:
    """Which noise to draw: model, options, seed, and how to read mu, sigma and the mask values.

    ``is_relative`` means that mu and sigma are given at 256 pixels and scale with each mask's
    longer side.
    """

    name: str = "contour"
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    classes: int = 1
    is_relative: bool = False

    def draw(
        self, mask: NDArray[Any], annotator: Annotator, site: str, case: str
    ) -> tuple[NDArray[Any], NoisyCase]:
        """Return the noisy mask and what was done to it."""
        scaled = annotator.scaled(max(mask.shape) / SIDE) if self.is_relative else annotator
        model = build_model(self.name, scaled, self.options)
        return noisy_case(model, scaled, mask, self.seed, site, case)


@dataclass(frozen=True)
class NoisyFolder:
    """One row per case that was drawn, and one sentence per file that was not."""

    table: tuple[NoisyCase, ...]
    problems: tuple[str, ...] = ()


def apply_to_folder(
    masks: Path,
    out: Path,
    annotator: Annotator,
    drawing: Drawing,
    *,
    site: str = "",
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> NoisyFolder:
    """Draw noisy versions of all masks of a folder; write them and ``noise.csv`` to another.

    Masks are pictures, or ``.npy`` arrays of two or three dimensions. The draws of a mask depend on
    the seed, the site and the file's stem.
    """
    files = find_masks(masks)
    build_model(drawing.name, annotator, drawing.options)  # wrong options: before any file
    if out.resolve() in {masks.resolve(), masks.resolve().parent} and out.is_dir():
        raise RecipeError(f"expected another folder than that of the clean masks, found '{out}'")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise RecipeError(f"'{out}' is not empty: choose another folder, or add --overwrite")
    draw = partial(_draw_file, out=out, annotator=annotator, drawing=drawing, site=site)
    rows, problems = _collect(draw, files, workers, progress)
    if rows:
        write_table(out / "noise.csv", rows, seed=drawing.seed, noise=drawing.name)
    return NoisyFolder(tuple(rows), tuple(problems))


def federate_folder(
    source: Path,
    out: Path,
    setting: NoiseSetting,
    sites: int,
    drawing: Drawing,
    *,
    assignment: Draw = "exact",
    test_share: float = TEST_SHARE,
    workers: int | None = None,
    progress: Progress | None = None,
) -> NoisyFolder:
    """Divide a data set equally at random, with noisy masks by one annotator per site.

    Writes ``SITE/train/images``, ``SITE/train/masks`` (noisy) and ``SITE/train/clean``,
    ``test/images`` and ``test/masks`` (clean), ``annotators.csv`` (mu and sigma at 256 pixels) and
    ``cases.csv``. The folder appears when it is complete. A noisy mask must not serve as truth: if
    the data set has no test cases of its own, ``test_share`` of its cases are set aside.
    """
    listing = _list(source, drawing.classes)
    train, tests = _divide(listing, test_share, drawing.seed)
    if out.exists():
        raise RecipeError(f"'{out}' exists: choose a new folder")
    parts = iid(len(train), sites, seeding.rng(drawing.seed, "partition"))
    annotators = annotators_of_setting(setting, list(parts), (SIDE,), drawing.seed, assignment)
    jobs: list[FileJob] = []
    jobs += [(s, listing.take([train[k]]), annotators[s]) for s in sorted(parts) for k in parts[s]]
    jobs += [("test", listing.take([case]), None) for case in tests]
    for annotator in annotators.values():
        build_model(drawing.name, annotator, drawing.options)
    part = out.with_name(f"{PART}{os.getpid()}-{out.name}")
    try:
        draw = partial(_draw_listed, out=part, drawing=drawing)
        rows, problems = _collect(draw, jobs, workers, progress)
        if problems:
            raise DataError("\n".join(problems))
        write_table(part / "cases.csv", rows)
        write_table(part / "annotators.csv", _annotator_rows(annotators, rows))
        part.replace(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return NoisyFolder(tuple(rows))


def _annotator_rows(
    annotators: Mapping[str, Annotator], rows: Sequence[NoisyCase]
) -> list[dict[str, Any]]:
    out = []
    for site, annotator in sorted(annotators.items()):
        own = [row for row in rows if row.site == site]
        out.append(
            {
                "site": site,
                "cases": len(own),
                "mu": annotator.mu,
                "sigma": annotator.sigma,
                "mean_dice": float(np.mean([row.dice for row in own])),
                "mean_area_ratio": float(np.nanmean([row.area_ratio for row in own])),
            }
        )
    return out


def _collect(
    call: Callable[[Any], NoisyCase | str | None],
    jobs: Sequence[Any],
    workers: int | None,
    progress: Progress | None,
) -> tuple[list[NoisyCase], list[str]]:
    count = workers or min(cores(), max(1, len(jobs) // CASES_PER_PROCESS))
    rows, problems = [], []
    for done, result in enumerate(ordered_map(call, jobs, count), 1):
        if isinstance(result, NoisyCase):
            rows.append(result)
        elif result:
            problems.append(result)
        if progress:
            progress(done, len(jobs))
    return rows, problems


def _draw_file(
    file: Path, *, out: Path, annotator: Annotator, drawing: Drawing, site: str
) -> NoisyCase | str:
    try:
        mask = read_mask_file(file, drawing.classes)
        noisy, row = drawing.draw(mask, annotator, site, file.stem)
    except DataError as error:
        return f"{file}: {error}"
    if file.suffix.lower() == ".npy":
        write_array(out / f"{file.stem}.npy", noisy)
    else:
        write_picture(out / file.stem, noisy, is_binary=drawing.classes == 1)
    return row


def _draw_listed(job: FileJob, *, out: Path, drawing: Drawing) -> NoisyCase | str | None:
    site, listing, annotator = job
    case = listing.cases[0]

    def write(folder: str, pixels: NDArray[np.uint8], is_binary: bool) -> None:
        home = out / folder_name(site)
        place = home / "train" if annotator else home
        stem = place / folder / case.id
        if listing.arrays:
            write_array(stem.with_name(f"{stem.name}.npy"), pixels)
        else:
            write_picture(stem, pixels, is_binary=is_binary)

    is_binary = drawing.classes == 1
    try:
        raw = listing.read(case)
        noisy, row = raw.mask, None
        if annotator is not None:
            noisy, row = drawing.draw(raw.mask, annotator, site, case.id)
            write("clean", raw.mask, is_binary)
    except DataError as error:
        return f"{case.name}: {error}"
    write("images", raw.image, False)
    write("masks", noisy, is_binary)
    return row


def _divide(listing: Listing, share: float, seed: int) -> tuple[list[Listed], list[Listed]]:
    """Return the cases to draw noise on, and those that keep their clean masks for testing."""
    given = as_test(listing.cases)
    if share and "test" not in given:
        sources = [case.source for case in listing.cases]
        groups = [case.group for case in listing.cases]
        given = split_cases(sources, groups, share=share, seed=seed)
    pairs = list(zip(listing.cases, given, strict=True))
    return [c for c, side in pairs if side in ("train", "")], [c for c, s in pairs if s == "test"]


def _list(source: Path, classes: int) -> Listing:
    names = tuple(f"class-{k}" for k in range(1, classes + 1))
    listing, problems = list_cases(source, Options(size=None, classes=names))
    raise_errors(problems, source)
    return listing
