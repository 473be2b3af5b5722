"""The prepared folder: images, masks, ``index.csv``, ``manifest.json`` and ``problems.csv``."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from feda3i.core.cases import Images, Masks
from feda3i.errors import DataError
from feda3i.files import hash_pixels, hash_text, write_array, write_csv, write_file, write_png
from feda3i.reading.limits import MAX_PIXELS
from feda3i.reading.names import is_id
from feda3i.reading.problems import CaseError, Problem

_FAMILY = "feda3i-prepared-"
FORMAT = f"{_FAMILY}1"
JOURNAL = ".feda3i-prepare.jsonl"
_COMPRESSION = 4  # of pictures: half the time of the usual 6 for a little more space


@dataclass(frozen=True, kw_only=True)
class IndexRow:
    """One case in ``index.csv``.

    The published hashes are of the files as their publisher sent them (of the joined hashes, if
    there are several masks); the other two are of our pixels.
    """

    id: str
    name: str
    source: str = ""
    site: str = ""
    split: str = ""
    group: str = ""
    original_size: str = ""  # height x width, for volumes slices x height x width
    spacing_mm: str = ""
    published_image_sha256: str = ""
    published_mask_sha256: str = ""
    image_sha256: str = ""
    mask_sha256: str = ""


def is_prepared(folder: Path) -> bool:
    """Return whether the folder was made by ``feda3i prepare`` and is complete.

    A manifest that some other program wrote says nothing; one that cannot be read may be ours.
    """
    if not (folder / "manifest.json").is_file() or not (folder / "index.csv").is_file():
        return False
    return is_made_here(folder) or (folder / JOURNAL).is_file() or _load_manifest(folder) is None


def is_unfinished(folder: Path) -> bool:
    """Return whether a preparation was stopped in this folder."""
    return (folder / JOURNAL).is_file() and not (folder / "manifest.json").is_file()


def is_made_here(folder: Path) -> bool:
    """Return whether a manifest says that ``feda3i prepare`` made the folder."""
    manifest = _load_manifest(folder)
    return isinstance(manifest, dict) and str(manifest.get("format")).startswith(_FAMILY)


def _load_manifest(folder: Path) -> Any:
    """Return whatever the manifest holds; nothing if it cannot be read."""
    try:
        return json.loads((folder / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a prepared folder."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error}): prepare again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"{path}: expected format {FORMAT}; made by another version or program")
    if not _is_whole(manifest):
        raise DataError(f"{path} is damaged, parts of it are missing: prepare again")
    if "seal" in manifest and manifest["seal"] != manifest_seal(manifest):
        raise DataError(f"{path} was edited after the preparation: prepare again")
    return manifest


def _is_whole(manifest: dict[str, Any]) -> bool:
    """Return whether everything that readers use is there."""
    made, card = manifest.get("options"), manifest.get("card")
    return (
        isinstance(made, dict)
        and made.get("channels") in range(1, 65)
        and isinstance(made.get("classes"), list)
        and all(isinstance(name, str) for name in made["classes"])
        and isinstance(made.get("size"), int | None)
        and isinstance(made.get("volumes"), bool)
        and isinstance(card, dict)
        and "licence" in card
        and isinstance(manifest.get("sha256"), str)
    )


def manifest_seal(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its seal, so that a change by hand is noticed."""
    rest = {key: value for key, value in manifest.items() if key != "seal"}
    return hash_text(json.dumps(rest, sort_keys=True))


def read_index(folder: Path) -> list[IndexRow]:
    """Return the cases of a prepared folder."""
    path = folder / "index.csv"
    names = [field.name for field in fields(IndexRow)]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file, strict=True))
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path} cannot be read ({error}): prepare again") from None
    if not lines or lines[0] != names:
        raise DataError(f"{path}: expected the columns {', '.join(names)}: prepare again")
    rows = []
    for number, cells in enumerate(lines[1:], start=2):
        row = (
            IndexRow(**dict(zip(names, cells, strict=False))) if len(cells) == len(names) else None
        )
        if row is None or not is_id(row.id) or not _is_spacing(row.spacing_mm):
            raise DataError(f"{path}, line {number} is damaged: prepare again")
        rows.append(row)
    return rows


def index_problems(rows: Sequence[IndexRow], manifest: dict[str, Any]) -> list[Problem]:
    """Return where index and manifest disagree: nowhere, unless one was edited."""
    text = "the index does not hash as the manifest says: prepare again"
    wrong = digest(rows, published=False) != manifest["sha256"] or (
        "sha256_index" in manifest and index_digest(rows) != manifest["sha256_index"]
    )
    return [Problem("error", "changed since preparation", "index.csv", text)] if wrong else []


def index_digest(rows: Iterable[IndexRow]) -> str:
    """Return the SHA-256 of the whole index, with spacing and groups."""
    return hash_text(*("\t".join(asdict(row).values()) for row in rows))


def _is_spacing(text: str) -> bool:
    try:
        return all(math.isfinite(float(part)) and float(part) > 0 for part in text.split())
    except ValueError:
        return False


def write_index(folder: Path, rows: Iterable[IndexRow]) -> None:
    """Write ``index.csv``."""
    columns = [field.name for field in fields(IndexRow)]
    write_csv(folder / "index.csv", columns, [asdict(row) for row in rows])


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write JSON with sorted keys, so that equal content is equal bytes."""
    text = json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False)
    write_file(path, f"{text}\n".encode(), durable=False)


def digest(rows: Iterable[IndexRow], *, published: bool) -> str:
    """Return one SHA-256 for the whole set: of the published files, or of our pixels."""
    lines = [
        (row.id, row.published_image_sha256, row.published_mask_sha256)
        if published
        else (row.id, row.source, row.site, row.split, row.image_sha256, row.mask_sha256)
        for row in rows
    ]
    return hash_text(*("\t".join(line) for line in sorted(lines)))


def holds_arrays(volumes: bool, channels: int | None) -> bool:
    """Return whether a set is kept as ``.npy``: volumes, or channels that no PNG can hold."""
    return volumes or channels not in (None, 1, 3)


def write_case(folder: Path, name: str, image: Images, mask: Masks, classes: int) -> None:
    """Write a case: PNG in two dimensions (1-bit or palette masks), ``.npy`` where PNG cannot."""
    if holds_arrays(mask.ndim == 3, image.shape[-1]):
        for kind, array in (("images", image), ("masks", mask)):
            write_array(folder / kind / f"{name}.npy", array)
        return
    picture = image[..., 0] if image.shape[-1] == 1 else image
    write_png(folder / "images" / f"{name}.png", picture, _COMPRESSION)
    if classes == 1:
        drawn = Image.fromarray(mask.astype(bool))
    else:
        drawn = Image.fromarray(mask)
        drawn.putpalette(_palette(classes))
    write_png(folder / "masks" / f"{name}.png", drawn, _COMPRESSION)


def read_prepared(folder: Path, name: str, array: bool = False) -> tuple[Images, Masks]:
    """Return image ``(*space, channel)`` and mask ``(*space)`` of a prepared case."""
    try:
        if array:
            image = np.load(folder / "images" / f"{name}.npy", allow_pickle=False)
            return image, np.load(folder / "masks" / f"{name}.npy", allow_pickle=False)
        image = _read_png(f"{folder}/images/{name}.png")
        mask = _read_png(f"{folder}/masks/{name}.png")
    except FileNotFoundError as error:
        raise CaseError("file missing", f"{error.filename}: prepare again") from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise CaseError("corrupt picture", f"{error}: prepare again") from None
    return (image[..., None] if image.ndim == 2 else image), mask.astype(np.uint8)


def is_intact(folder: Path, row: IndexRow, array: bool = False) -> bool:
    """Return whether a case's files are there and hold the pixels that the index says."""
    try:
        image, mask = read_prepared(folder, row.id, array)
    except CaseError:
        return False
    return hash_pixels(image) == row.image_sha256 and hash_pixels(mask) == row.mask_sha256


def _read_png(path: str) -> NDArray[Any]:
    # Our own files are PNG for sure: no need to try decoders in turn.
    with open(path, "rb") as file, PngImageFile(file) as picture:
        if picture.width * picture.height > MAX_PIXELS:
            raise CaseError("image too large", f"{picture.width} x {picture.height}: prepare again")
        return np.asarray(picture)


def _palette(classes: int) -> list[int]:
    """Return black and then colours far apart, so that a mask can be looked at."""
    colours = [0, 0, 0]
    for k in range(classes):
        colours += [(67 * k + 230) % 256, (151 * k + 60) % 256, (97 * k + 40) % 256]
    return colours
