"""What became of every file of a folder: used as image, as mask, or not used, and why."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Literal

from feda3i.reading.file_list import FileEntry
from feda3i.reading.names import split_extension
from feda3i.reading.pairs import Pair
from feda3i.reading.problems import Problem

Unused = Literal["error", "allow"]
_MANY = 4  # this many folders of one case side by side are summed up in one line


@dataclass
class Usage:
    """The files of one folder (or of many small ones beside each other)."""

    folder: str
    images: int = 0
    masks: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    others: int = 0
    folders: int = 1

    @property
    def unused(self) -> int:
        """Return how many pictures and volumes are in no case."""
        return sum(self.reasons.values())

    def record(self) -> dict[str, Any]:
        """Return the counts as JSON values, without those that are 0."""
        counts = {"images": self.images, "masks": self.masks, "not_used": self.reasons}
        return {name: count for name, count in counts.items() if count}

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.folder,
            self.images + other.images,
            self.masks + other.masks,
            self.reasons + other.reasons,
            self.others + other.others,
            self.folders + other.folders,
        )


def usage_of(
    entries: Iterable[FileEntry],
    pairs: Sequence[Pair],
    problems: Iterable[Problem],
    root: Path | None = None,
) -> list[Usage]:
    """Count the files of every folder that holds any, sorted by folder.

    With a root its empty folders are listed, too: perhaps a site whose data has not arrived.
    """
    images = {file.name for pair in pairs for file in pair.images}
    masks = {file.name for pair in pairs for file in pair.masks}
    masks |= {file.name for pair in pairs for _, files in pair.annotators for file in files}
    reasons = {problem.name: problem.kind for problem in problems}
    found: dict[str, Usage] = {}
    for name in sorted({entry.name for entry in entries} | images | masks):
        folder = posixpath.dirname(name) or "."
        own = found.setdefault(folder, Usage(folder))
        if name in images or name in masks:
            own.images += name in images
            own.masks += name in masks
        elif split_extension(name)[1]:
            own.reasons[reasons.get(name, "belongs to no case")] += 1
        else:
            own.others += 1
    held = {folder.split("/")[0] for folder in found}
    for item in root.iterdir() if root is not None else ():
        if item.is_dir() and not item.name.startswith(".") and item.name not in held:
            found[item.name] = Usage(item.name)
    return _joined(list(found.values()))


def without(usages: Sequence[Usage], spoilt: Sequence[tuple[Pair, str]]) -> list[Usage]:
    """Count the files of pairs that could not be read as not used, by the kind of finding."""
    copies = [replace(usage, reasons=usage.reasons.copy()) for usage in usages]
    found = {(usage.folder, usage.folders > 1): usage for usage in copies}
    for pair, kind in spoilt:
        for is_image, files in ((True, pair.images), (False, pair.masks)):
            for file in files:
                own = posixpath.dirname(file.name) or "."
                above = posixpath.dirname(own) or "."
                usage = found.get((own, False)) or found.get((above, True))
                if usage is not None:
                    usage.images -= is_image
                    usage.masks -= not is_image
                    usage.reasons[kind] += 1
    return copies


def usage_lines(usages: Sequence[Usage], show: int = 40) -> list[str]:
    r"""Return a table: folder, files used as images and as masks, files not used, why.

    >>> print("\n".join(usage_lines([Usage("north", 2, 2), Usage("west", 0, 0, {"no mask": 3})])))
    folder  images  masks  not used
    north        2      2         0
    west         0      0         3  no mask: 3
    """
    names = [f"{u.folder}/*" if u.folders > 1 else u.folder for u in usages]
    width = max((len(name) for name in [*names, "folder"]), default=6)
    lines = [f"{'folder':{width}}  images  masks  not used"]
    for name, usage in list(zip(names, usages, strict=True))[:show]:
        why = [f"{kind}: {count}" for kind, count in sorted(usage.reasons.items())]
        why += [f"{usage.folders} folders"] if usage.folders > 1 else []
        why += ["empty"] if not (usage.images + usage.masks + usage.unused + usage.others) else []
        why += [f"other files: {usage.others}"] if usage.others else []
        text = f"{name:{width}}  {usage.images:6}  {usage.masks:5}  {usage.unused:8}"
        lines.append(f"{text}  {', '.join(why)}".rstrip())
    if len(usages) > show:
        lines.append(f"... and {len(usages) - show} more folders")
    return lines


def _joined(usages: Sequence[Usage]) -> list[Usage]:
    """Join neighbouring folders that hold one case each."""
    sisters: dict[str, list[Usage]] = defaultdict(list)
    for usage in usages:
        if usage.images == 1 and not usage.unused and usage.folder != ".":
            sisters[posixpath.dirname(usage.folder)].append(usage)
    many = {parent: own for parent, own in sisters.items() if len(own) >= _MANY}
    small = {usage.folder for own in many.values() for usage in own}
    joined = [replace(reduce(add, own), folder=parent or ".") for parent, own in many.items()]
    kept = [usage for usage in usages if usage.folder not in small]
    return sorted([*kept, *joined], key=lambda usage: (usage.folder, usage.folders))
