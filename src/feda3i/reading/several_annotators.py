"""Several people drew the same images: ``images/``, ``annotators/NAME/``, perhaps ``masks/``."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
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

_TREE = re.compile(r"(?:(.*?)/)?annotators/([^/]+)/(.+)", re.IGNORECASE)
Masks = dict[str, FileEntry]  # of one annotator, by the names that they would have in masks/


def find_annotated(
    entries: Sequence[FileEntry], options: Options
) -> tuple[list[Pair], list[Problem], list[FileEntry]]:
    """Return cases with the masks of all their annotators, findings, and the files of no such tree.

    The masks of one annotator are paired with the images as if they were the only ones. ``masks/``
    beside ``annotators/`` is the reference for testing.
    """
    trees: dict[str, dict[str, Masks]] = defaultdict(lambda: defaultdict(dict))
    rest: list[FileEntry] = []
    for entry in entries:
        found = _TREE.fullmatch(entry.name)
        if found is None:
            rest.append(entry)
        elif split_extension(entry.name)[1]:
            above, name, inner = found.groups("")
            trees[above][name][posixpath.join(above, "masks", inner)] = entry
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for above, people in sorted(trees.items()):
        own = [entry for entry in rest if entry.name.startswith(posixpath.join(above, ""))]
        rest = [entry for entry in rest if entry not in own]
        made, wrong = _of_tree(above, people, own, options)
        pairs, problems = pairs + made, problems + wrong
    return pairs, problems, rest


def _of_tree(
    above: str, people: dict[str, Masks], own: Sequence[FileEntry], options: Options
) -> tuple[list[Pair], list[Problem]]:
    if not any(fnmatch(name, options.annotators_of) for name in people):
        raise DataError(
            f"data.annotators_of={options.annotators_of} fits no folder of '{above or '.'}"
            f"/annotators', which has {', '.join(sorted(people)[:8])}"
        )
    images = [file for file in own if not file.name.startswith(posixpath.join(above, "masks/"))]
    reference, problems = find_pairs(own, options.group)
    truth = {pair.images: pair.masks for pair in reference}
    pairs: dict[tuple[FileEntry, ...], Pair] = {}
    for name, masks in sorted(people.items()):
        if not fnmatch(name, options.annotators_of):
            problems += _aside(masks.values(), "of an annotator who was not chosen")
            continue
        renamed = [replace(mask, name=as_mask) for as_mask, mask in masks.items()]
        found, wrong = find_pairs([*images, *renamed], options.group)
        problems += [replace(p, name=masks[p.name].name) for p in wrong if p.name in masks]
        for pair in found:
            drawn = (name, tuple(masks[mask.name] for mask in pair.masks))
            known = pairs.get(pair.images, replace(pair, masks=truth.get(pair.images, ())))
            pairs[pair.images] = replace(known, annotators=(*known.annotators, drawn))
    used = {file for files in pairs for file in files}
    unused = [file for file in images if file not in used and split_extension(file.name)[1]]
    problems = [p for p in problems if p.kind != "mask missing"]
    problems += _aside(unused, "no annotator that was chosen has drawn it")
    return list(pairs.values()), problems


def _aside(files: Iterable[FileEntry], text: str) -> list[Problem]:
    return [Problem("note", "left aside", file.name, text) for file in files]


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
