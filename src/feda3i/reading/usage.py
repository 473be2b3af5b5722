"""What became of every file of a folder: an image, a mask, or not used, and why."""

import posixpath
from collections import Counter, defaultdict
from collections.abc import Mapping

Fates = Mapping[str, str]
"""File -> ``"images"``, ``"masks"``, ``"other files"``, or why it is in no case. A folder without
files is in it, too: perhaps a site whose data has not arrived."""
IMAGE, MASK, OTHER, EMPTY = "images", "masks", "other files", "empty"
_MANY = 4  # this many folders of one case side by side are one row
_FOLDERS = "folders"
_NEUTRAL = (IMAGE, MASK, OTHER, EMPTY, _FOLDERS)


def not_used(fates: Counter[str]) -> int:
    """Return how many pictures and volumes are in no case."""
    return sum(count for fate, count in fates.items() if fate not in _NEUTRAL)


def usage_of(fates: Fates) -> dict[str, Counter[str]]:
    """Count the fates in every folder; many folders of one case side by side are summed up."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, fate in fates.items():
        found[posixpath.dirname(name) or "."][fate] += 1
    sisters: dict[str, list[str]] = defaultdict(list)
    for folder, counts in found.items():
        if counts[IMAGE] == 1 and not not_used(counts) and folder != ".":
            sisters[posixpath.dirname(folder)].append(folder)
    for above, folders in sisters.items():
        if len(folders) >= _MANY:
            own = sum((found.pop(folder) for folder in folders), Counter[str]())
            found[posixpath.join(above, "*")] = own + Counter({_FOLDERS: len(folders)})
    return dict(sorted(found.items()))


def usage_lines(fates: Fates, show: int = 40) -> list[str]:
    r"""Return a table: folder, files used as images and as masks, files not used, why.

    >>> print("\n".join(usage_lines({"west/a.png": "mask missing", "west/b.txt": "other files"})))
    folder  images  masks  not used
    west         0      0         1  mask missing: 1, other files: 1
    """
    usage = usage_of(fates)
    width = max(map(len, [*usage, "folder"]))
    lines = [f"{'folder':{width}}  images  masks  not used"]
    for name, counts in list(usage.items())[:show]:
        text = f"{name:{width}}  {counts[IMAGE]:6}  {counts[MASK]:5}  {not_used(counts):8}"
        why = [
            fate if fate == EMPTY else f"{fate}: {count}"
            for fate, count in sorted(counts.items())
            if fate not in (IMAGE, MASK)
        ]
        lines.append(f"{text}  {', '.join(why)}".rstrip())
    if len(usage) > show:
        lines.append(f"... and {len(usage) - show} more folders")
    return lines
