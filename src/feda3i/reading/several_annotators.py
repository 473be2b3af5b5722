"""Several people drew the same images: ``images/``, ``annotators/NAME/``, perhaps ``masks/``."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatch

from feda3i.errors import DataError
from feda3i.reading.consensus import Consensus
from feda3i.reading.file_list import FileEntry
from feda3i.reading.match import Pair
from feda3i.reading.names import split_extension
from feda3i.reading.options import Options
from feda3i.reading.pairs import find_pairs
from feda3i.reading.problems import Problem

FOLDER = "annotators"
Drawn = dict[str, tuple[FileEntry, ...]]


def find_annotated(
    entries: Sequence[FileEntry], options: Options
) -> tuple[list[Pair], list[Problem], list[FileEntry]]:
    """Return cases with the masks of all their annotators, findings, and the files of no such tree.

    The masks of one annotator are paired with the images as if they were the only ones. ``masks/``
    beside ``annotators/`` is the reference for testing.
    """
    trees: dict[str, dict[str, list[FileEntry]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        above, name, inner = _split(entry.name)
        if name and split_extension(inner)[1]:
            trees[above][name].append(replace(entry, name=posixpath.join(above, "masks", inner)))
    rest = [entry for entry in entries if not _split(entry.name)[1]]
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for above, people in sorted(trees.items()):
        own = [entry for entry in rest if posixpath.dirname(entry.name).startswith(above)]
        rest = [entry for entry in rest if entry not in own]
        found, wrong = _of_tree(above, people, own, options)
        pairs, problems = pairs + found, problems + wrong
    return pairs, problems, rest


def _of_tree(
    above: str, people: dict[str, list[FileEntry]], own: Sequence[FileEntry], options: Options
) -> tuple[list[Pair], list[Problem]]:
    chosen = {name for name in people if fnmatch(name, options.annotators_of)}
    if not chosen:
        raise DataError(
            f"data.annotators_of={options.annotators_of} fits no folder of '{above or '.'}"
            f"/{FOLDER}', which has {', '.join(sorted(people)[:8])}"
        )
    masks_here, place = posixpath.join(above, "masks/"), posixpath.join(above, FOLDER)
    images = [entry for entry in own if not entry.name.startswith(masks_here)]
    reference, problems = find_pairs(own, options.group)
    truth = {pair.images: pair.masks for pair in reference}
    drawn: dict[tuple[FileEntry, ...], Drawn] = defaultdict(dict)
    pairs: dict[tuple[FileEntry, ...], Pair] = {}
    for name, masks in sorted(people.items()):
        real = {m.name: posixpath.join(place, name, m.name[len(masks_here) :]) for m in masks}
        if name not in chosen:
            text = "of an annotator who was not chosen"
            problems += [Problem("note", "left aside", file, text) for file in real.values()]
            continue
        found, wrong = find_pairs([*images, *masks], options.group)
        problems += [replace(p, name=real[p.name]) for p in wrong if p.name in real]
        for pair in found:
            files = tuple(replace(mask, name=real[mask.name]) for mask in pair.masks)
            drawn[pair.images][name] = files
            pairs.setdefault(pair.images, pair)
    text = "no annotator that was chosen has drawn it"
    used = {file for files in pairs for file in files}
    for image in images:
        if image not in used and split_extension(image.name)[1]:
            problems.append(Problem("note", "left aside", image.name, text))
    problems = [p for p in problems if p.kind != "mask missing"]
    return [
        replace(pair, masks=truth.get(files, ()), annotators=tuple(drawn[files].items()))
        for files, pair in pairs.items()
    ], problems


def choose_masks(pair: Pair, options: Options, annotator: str | None = None) -> Pair:
    """Return a case with the masks of one annotator, or with the consensus of all (empty name).

    ``None`` is the reference: ``masks/`` if there is one, else the consensus.
    """
    if annotator:
        return replace(pair, masks=dict(pair.annotators)[annotator], annotators=())
    if not pair.annotators or (pair.masks and annotator is None):
        return replace(pair, annotators=())
    how: Consensus = "staple" if options.annotators == "staple" else "majority"
    masks = tuple(file for _, files in pair.annotators for file in files)
    return replace(pair, masks=masks, consensus=how)


def _split(name: str) -> tuple[str, str, str]:
    """Return the folders above ``annotators``, the annotator's name, and the rest of a path.

    >>> _split("a/annotators/crowd1/x.png"), _split("a/images/x.png")
    (('a', 'crowd1', 'x.png'), ('', '', ''))
    """
    parts = name.split("/")
    for depth, part in enumerate(parts[:-2]):
        if part.lower() == FOLDER:
            return "/".join(parts[:depth]), parts[depth + 1], "/".join(parts[depth + 2 :])
    return "", "", ""
