"""nnU-Net's raw layout: one file per channel, and classes in ``dataset.json``."""

import json
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from feda3i.errors import DataError
from feda3i.reading.file_list import FileEntry, read_file
from feda3i.reading.match import Files
from feda3i.reading.problems import CaseError, Problem

_CHANNEL = re.compile(r"(?P<case>.+)_(?P<channel>\d{4})")


def join_channels(images: Files, masks: Files) -> tuple[Files, list[Problem]]:
    """Return case -> its channels in order, for files ``CASE_0000``, ``CASE_0001``, ...

    A file that has a mask of its own full name is a case of one channel (older sets number none).
    Cases without the channels that most others have are left out and named.
    """
    found: dict[str, dict[str, list[FileEntry]]] = defaultdict(lambda: defaultdict(list))
    for stem, files in sorted(images.items()):
        parts = None if stem in masks else _CHANNEL.fullmatch(stem)
        case, channel = (parts["case"], parts["channel"]) if parts else (stem, "0000")
        found[case][channel] += files
    count = Counter(tuple(sorted(channels)) for channels in found.values())
    usual = max((number, len(names), names) for names, number in count.items())[2] if count else ()
    cases: Files = defaultdict(list)
    problems = []
    for case, channels in found.items():
        files = [file for channel in sorted(channels) for file in channels[channel]]
        if tuple(sorted(channels)) != usual or len(files) != len(channels):
            names = ", ".join(posixpath.basename(file.name) for file in files)
            text = f"expected the channels {', '.join(usual)}, found {names}"
            problems.append(Problem("error", "channels differ", files[0].name, text))
            masks.pop(case, None)
        else:
            cases[case] = files
    return cases, problems


def nnunet_classes(entries: Sequence[FileEntry]) -> tuple[str, ...]:
    """Return the classes that the ``dataset.json`` files name; none if there is no such file."""
    files = [entry for entry in entries if posixpath.basename(entry.name) == "dataset.json"]
    named = {entry.name: found for entry in files if (found := _classes(entry))}
    if len(set(named.values())) > 1:
        (one, a), (other, b) = sorted(named.items())[:2]
        raise DataError(
            f"the sites do not name the same classes: {one} has {', '.join(a)}, {other} has "
            f"{', '.join(b)}; give them yourself (classes)"
        )
    return next(iter(named.values()), ())


def _classes(entry: FileEntry) -> tuple[str, ...]:
    try:
        labels = json.loads(read_file(entry.place)).get("labels", {})
    except (CaseError, ValueError, AttributeError) as error:
        raise DataError(f"{entry.name} cannot be read: {error}") from None
    if not isinstance(labels, dict):
        return ()
    # Version 2 writes {name: value}, version 1 and the Decathlon {"value": name}.
    numbers = {_number(k): str(v) for k, v in labels.items() if _number(k) is not None}
    values = numbers or {_number(v): str(k) for k, v in labels.items()}
    if sorted(v for v in values if v is not None) != list(range(len(labels))):
        raise DataError(
            f"{entry.name}: expected labels 0 (background), 1, 2, ... without gaps or regions, "
            f"found {labels}; give the names of the mask values 1, 2, ... yourself (classes)"
        )
    return tuple(values[k] for k in range(1, len(labels)))


def _number(value: Any) -> int | None:
    return int(value) if str(value).isdigit() else None
