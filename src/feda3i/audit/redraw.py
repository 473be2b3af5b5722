"""A tree of masks redrawn: measure each site, decide who moves, write new masks beside the old.

Nothing of the given tree is changed. What is written has the same names and formats; a mask of a
site that stays, and every image, is copied as it is.
"""

import csv
import gzip
import hashlib
import io
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.normalise import Normalise
from feda3i.data.division import home, list_folder
from feda3i.errors import DataError, check_choice
from feda3i.files import csv_text, write_file
from feda3i.geometry import relative_sizes
from feda3i.quality import SIDE, Effects, Offset, colour_profile, longest_side, redraw, site_effects
from feda3i.quality.edges import SPAN, Evidence
from feda3i.quality.measure import measure_profiles
from feda3i.quality.numbers import FloatArray
from feda3i.reading.decode import RawCase
from feda3i.reading.file_list import FileEntry, read_file
from feda3i.reading.listing import Listing, holds_volumes
from feda3i.reading.match import Pair
from feda3i.reading.names import VOLUMES
from feda3i.reading.options import Options
from feda3i.reading.picture import read_mask
from feda3i.reading.volume import read_volume, write_like

CHANGES = "changes.csv"
COLUMNS = ("file", "case", "site", "class", "px", "area_before", "area_after", "sha256", "reason")
LEAST = 0.5  # pixels of the case below which a contour stays: a mask has no finer steps


@dataclass(frozen=True)
class Decision:
    """Who moves by how much: for each class what was found, and the sites in its order."""

    sites: tuple[str, ...]
    classes: tuple[str, ...]
    effects: tuple[Effects, ...]
    pixel: float = 1.0  # pixels of the median case in one at 256

    def moves(self, site: str, longest: float) -> list[float]:
        """Return by how many pixels a case's contours move outwards, by class; 0 if by too few."""
        k = self.sites.index(site)
        moves = [float(one.moves[k]) * longest / SIDE for one in self.effects]
        return [px if abs(px) >= LEAST else 0.0 for px in moves]

    def habits(self, site: str) -> list[tuple[str, str]]:
        """Return each class, and how the site draws it."""
        k, found = self.sites.index(site), []
        for name, effect in zip(self.classes, self.effects, strict=True):
            beside = "the trusted masks" if effect.is_trusted else "the others"
            habit = f"the site draws {effect.own[k] * self.pixel:+.1f} px beside {beside}"
            found.append((name, habit))
        return found

    def told(self) -> list[str]:
        """Return who moves by how much and how sure that is, and why nobody does."""
        lines = []
        for name, effect in zip(self.classes, self.effects, strict=True):
            head = f"{name}: " if len(self.classes) > 1 else ""
            if effect.is_trusted:
                b, error = (
                    effect.b * self.pixel,
                    f"standard error {effect.b_error * self.pixel:.1f}",
                )
                lines.append(f"{head}b0 of the trusted masks {b:+.1f} px, {error}")
            if effect.reason or not effect.moves.any():
                why = effect.reason or "the sites differ no more than by chance"
                lines.append(f"{head}nobody moves: {why}")
                continue
            for site, own, error in zip(self.sites, effect.own, effect.error, strict=True):
                by = f"{-own * self.pixel:+.1f} px, standard error {error * self.pixel:.1f}"
                is_moved = abs(own) * self.pixel >= LEAST
                said = f"moves its contours by {by}" if is_moved else "stays"
                lines.append(f"{head}{site}: {said}")
        return lines


def open_tree(folder: Path, classes: Sequence[str] = ()) -> Listing:
    """Return the cases of a tree of sites at their own size."""
    folder = folder.expanduser()
    whole = {"volumes": "whole"} if holds_volumes(folder) else {}
    return list_folder(folder, Options.of({"unused": "allow", "classes": tuple(classes), **whole}))


def decide(listing: Listing, trusted: Listing | None = None, trusted_site: str = "") -> Decision:
    """Measure every site by the edges in its images; return who should move by how much."""
    sites = tuple(sorted({home(case) for case in listing.cases}))
    if trusted_site:
        check_choice("--trusted-site", trusted_site, sites)
    classes = tuple(listing.options.classes or ("lesion",))
    found, side = measure_tree(listing, home)
    border: Sequence[Offset | None] = [None] * len(classes)
    if trusted is not None:
        border = measure_tree(trusted, lambda _: "")[0][""]
    right = [site == trusted_site for site in sites]
    effects = tuple(
        site_effects([found[site][k] for site in sites], border[k], right)
        for k in range(len(classes))
    )
    return Decision(sites, classes, effects, side / SIDE)


def measure_tree(
    listing: Listing, site_of: Callable[[Pair], str]
) -> tuple[dict[str, list[Offset]], float]:
    """Return each site's offset by class, in pixels at 256, and the median case's longest side.

    One case is in memory at a time.
    """
    count = len(listing.options.classes or ("lesion",))
    profiles: dict[str, list[list[FloatArray]]] = {}
    sides = []
    for case in listing.cases:
        raw = listing.read(case)
        image, voxels = byte_values(raw.image), _voxels(raw)
        sides.append(longest_side(raw.mask.shape, voxels))
        for k, mine in enumerate(profiles.setdefault(site_of(case), [[] for _ in range(count)])):
            profile = colour_profile(image, np.asarray(raw.mask) == k + 1, voxels)
            mine += [] if profile is None else [profile]
    found = {site: [measure_profiles(one) for one in each] for site, each in profiles.items()}
    return found, float(np.median(sides))


def write_tree(
    listing: Listing,
    target: Path,
    decision: Decision,
    show: Callable[[Pair, RawCase, NDArray[np.uint8]], None],
) -> tuple[int, dict[str, list[tuple[float, float]]]]:
    """Write the redrawn tree; return how many masks changed, and their evidence before and after.

    The evidence is how well colours inside and outside of the contour differ, by site. ``show`` is
    given every case that moved, and its new mask.
    """
    changes: list[list[Any]] = []
    evidence: dict[str, list[tuple[float, float]]] = {}
    for case in listing.cases:
        raw, site = listing.read(case), home(case)
        own = decision.moves(site, longest_side(raw.mask.shape, _voxels(raw)))
        for file in case.images if any(own) else (*case.images, *case.masks):
            if not (copy := target / file.name).exists():  # a file may belong to several cases
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.place, copy)
        if any(own):
            for file in case.masks:
                given, moved, data = _redrawn(file, own, listing.options)
                (target / file.name).parent.mkdir(parents=True, exist_ok=True)
                write_file(target / file.name, data)
                digest = hashlib.sha256(data).hexdigest()
                for k, (name, habit) in enumerate(decision.habits(site)):
                    areas = [int((mask == k + 1).sum()) for mask in (given, moved)]
                    if any(areas):
                        moves = round(own[k], 2), *areas
                        changes.append([file.name, case.id, site, name, *moves, digest, habit])
            after = redraw(np.asarray(raw.mask), own, _voxels(raw))
            before, now = _strength(raw, np.asarray(raw.mask)), _strength(raw, after)
            if np.isfinite(before + now):
                evidence.setdefault(site, []).append((before, now))
            show(case, raw, after)
    target.mkdir(parents=True, exist_ok=True)
    write_file(target / CHANGES, csv_text(list(COLUMNS), changes).encode(), mode=0o600)
    return len({row[0] for row in changes}), evidence


def undo(source: Path, target: Path) -> int:
    """Put the given masks back where ``write_tree`` put new ones; return how many.

    A file that was changed since then is an error, and nothing is put back.
    """
    table = target / CHANGES
    if not table.is_file():
        raise DataError(f"'{target}' has no {CHANGES}: feda3i redraw did not write it")
    rows = list(csv.DictReader(io.StringIO(table.read_text("utf-8"))))
    files = {row["file"]: row["sha256"] for row in rows}
    for name, digest in files.items():
        own, given = target / name, source / name
        if not own.is_file() or hashlib.sha256(own.read_bytes()).hexdigest() != digest:
            raise DataError(f"'{own}' was changed since it was redrawn; nothing was put back")
        if not given.is_file():
            raise DataError(f"'{given}' is gone, so nothing can be put back")
    for name in files:
        write_file(target / name, (source / name).read_bytes())
    table.rename(target / f"undone-{CHANGES}")
    return len(files)


def _redrawn(
    file: FileEntry, own: Sequence[float], options: Options
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], bytes]:
    """Return the classes of a mask before and after, and the new file in its own format.

    Pixels of pictures that keep their class keep their value; the others take the value that is
    the most frequent one of their new class.
    """
    if file.name.lower().endswith(VOLUMES):
        return _volume(file, own, options)
    from PIL import Image

    data = read_file(file.place)
    given = read_mask(data, classes=len(own), upright=False).pixels.astype(np.uint8)
    moved = redraw(given, own)
    with Image.open(io.BytesIO(data)) as opened:
        kind, palette, exif = opened.format, opened.getpalette(), opened.info.get("exif")
        pixels = np.array(opened)
    values = pixels.reshape(*given.shape, -1)
    for k in np.unique(moved[moved != given]):
        rows, counts = np.unique(values[given == k], axis=0, return_counts=True)
        if len(rows):
            values[(moved == k) & (given != k)] = rows[counts.argmax()]
    made = Image.fromarray(values.reshape(pixels.shape))
    if palette is not None and made.mode == "L":
        made.putpalette(palette)
    elif opened.mode == "1":
        made = made.convert("1", dither=Image.Dither.NONE)
    more: dict[str, Any] = {"quality": 100, "subsampling": 0} if kind == "JPEG" else {}
    if exif is not None:
        more["exif"] = exif
    buffer = io.BytesIO()
    made.save(buffer, kind or "PNG", **more)
    return given, moved, buffer.getvalue()


def _volume(
    file: FileEntry, own: Sequence[float], options: Options
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], bytes]:
    if not file.name.lower().endswith((".nii", ".nii.gz")):
        raise DataError(f"'{file.place}': masks of volumes are written as NIfTI; convert it first")
    volume = read_volume([file.place], options.axis)
    given = volume.values.astype(np.uint8)
    moved = redraw(given, own, volume.spacing or None)
    data = write_like(volume, moved, options.axis)
    if not file.name.lower().endswith(".gz"):
        data = gzip.decompress(data)
    return given, moved, data


def _strength(raw: RawCase, mask: NDArray[np.uint8]) -> float:
    """Return how well colours near the contour, inside and outside of it, can be told apart."""
    profile = colour_profile(byte_values(raw.image), mask > 0, _voxels(raw))
    return np.nan if profile is None else float(Evidence([profile]).rings[0, SPAN])


def byte_values(image: NDArray[Any]) -> NDArray[Any]:
    """Return an image on the scale of bytes: as it is, or by its mean and standard deviation."""
    values = np.asarray(image)
    return values if values.dtype == np.uint8 else Normalise("zscore")(values)


def _voxels(raw: RawCase) -> list[float] | None:
    """Return the relative sizes of voxels; pixels of pictures count as square."""
    return relative_sizes(raw.spacing) if raw.mask.ndim == 3 and raw.spacing else None
