"""Where ``feda3i predict`` writes: names never collide, and no file of the user's is replaced."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from feda3i.errors import DataError
from feda3i.reading.names import hash_tag


def output_names(names: Sequence[str], endings: Sequence[str]) -> list[str]:
    """Return one stem per file name so that no two files of all ``stem + ending`` are the same.

    A file keeps its own stem if that is free; all members of a clash get their extension into the
    name, and if that is taken as well, a hash. Case is ignored.

    >>> output_names(["a.png", "b.png"], [".png"])
    ['a', 'b']
    >>> output_names(["a.png", "a.bmp", "b.png"], [".png"])
    ['a_png', 'a_bmp', 'b']
    >>> output_names(["a.png", "a_overlay.png"], [".png", "_overlay.png"])
    ['a_png', 'a_overlay_png']
    """
    steps = [0] * len(names)
    while True:
        stems = [_stem(name, step) for name, step in zip(names, steps, strict=True)]
        taken = Counter(_folded(stem + ending) for stem in stems for ending in endings)
        clash = [any(taken[_folded(stem + ending)] > 1 for ending in endings) for stem in stems]
        if not any(clash):
            return stems
        steps = [step + hit for step, hit in zip(steps, clash, strict=True)]


def check_targets(
    out: Path, sources: Sequence[Path], targets: Sequence[Path], overwrite: bool
) -> None:
    """Raise ``DataError`` before anything is written if a file of the user's would be lost.

    Images are never replaced; other files only with ``overwrite``.
    """
    if out.exists() and not out.is_dir():
        raise DataError(f"expected a folder for the masks, found a file: '{out}'")
    for folder in {source.parent for source in sources}:
        if out.is_dir() and out.samefile(folder):
            raise DataError(
                f"'{out}' holds the images themselves: choose another folder for the masks"
            )
    images = {_identity(source) for source in sources}
    found = [target for target in targets if target.exists() or target.is_symlink()]
    for target in found:
        if target.is_dir():
            raise DataError(f"expected to write '{target}', found a folder of this name")
        if target.exists() and _identity(target) in images:
            raise DataError(f"'{target}' is one of the images: choose another folder for the masks")
    if found and not overwrite:
        more = f", and so do {len(found) - 1} more" if len(found) > 1 else ""
        raise DataError(
            f"'{found[0]}' already exists{more}: choose another folder, or add --overwrite"
        )


def _stem(name: str, step: int) -> str:
    if step == 0:
        stem = Path(name).stem
        return Path(stem).stem if name.lower().endswith(".nii.gz") else stem
    whole = name.replace(".", "_")
    return whole if step == 1 else f"{whole}-{hash_tag(name * (step - 1))}"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _identity(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_dev, state.st_ino
