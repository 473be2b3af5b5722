"""Noise on a folder of masks: what ``feda3i noise apply`` reads and writes."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError, RecipeError
from feda3i.files import write_array, write_csv, write_png
from feda3i.noise.model import SIDE, Annotator
from feda3i.noise.noisy_masks import NoisyCase, build_model, noisy_case
from feda3i.reading.file_list import read_file
from feda3i.reading.picture import read_mask

MASK_FILES = (".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg", ".npy")


def apply_to_folder(
    masks: Path,
    out: Path,
    annotator: Annotator,
    name: str,
    options: Mapping[str, Any],
    *,
    seed: int,
    site: str,
    classes: int,
    is_relative: bool,
) -> tuple[list[NoisyCase], list[str]]:
    """Draw noisy versions of all masks of a folder; write them and ``noise.csv`` to another.

    Masks are pictures, or ``.npy`` arrays of two or three dimensions. ``is_relative``: mu and sigma
    are given at 256 pixels and scale with each mask's longer side. The draws of a mask depend on
    seed, site and the file's stem. Returns a row per mask and a sentence per file left out.
    """
    files = _find_masks(masks)
    build_model(name, annotator, options)  # wrong options: before any file
    if out.is_dir() and any(out.iterdir()):
        raise RecipeError(f"'{out}' is not empty: choose a new folder")
    rows, problems = [], []
    for file in files:
        try:
            mask = _read(file, classes)
            own = annotator.scaled(max(mask.shape) / SIDE if is_relative else 1)
            model = build_model(name, own, options)
            noisy, row = noisy_case(model, own, mask, seed, site, file.stem)
        except DataError as error:
            problems.append(f"{file}: {error}")
            continue
        rows.append(row)
        if file.suffix.lower() == ".npy":
            write_array(out / f"{file.stem}.npy", noisy)
        else:
            shown = noisy * np.uint8(255) if classes == 1 else noisy
            write_png(out / f"{file.stem}.png", shown, compression=1)
    cells = [
        {key: f"{v:.6g}" if isinstance(v, float) else v for key, v in asdict(row).items()}
        | {"seed": seed, "noise": name}
        for row in rows
    ]
    if cells:
        write_csv(out / "noise.csv", list(cells[0]), cells)
    return rows, problems


def _find_masks(folder: Path) -> list[Path]:
    """Return the mask files of a folder (or the one file given), sorted; stems must differ."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}'")
    found = sorted(f for f in folder.iterdir() if f.suffix.lower() in MASK_FILES and f.is_file())
    if not found:
        raise DataError(f"'{folder}' has no mask: expected {', '.join(MASK_FILES)}")
    stems = [f.stem for f in found]
    if twice := sorted({s for s in stems if stems.count(s) > 1}):
        raise DataError(
            f"'{folder}' has several files called '{twice[0]}': noise depends on the name"
        )
    return found


def _read(file: Path, classes: int) -> NDArray[Any]:
    if file.suffix.lower() != ".npy":
        return read_mask(read_file(file), classes=classes).pixels
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"cannot be read as an array: {error}") from None
