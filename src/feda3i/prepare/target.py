"""The folder that a preparation writes to: an empty one or one of ours, known by its content.

Its journal says what was done so far, one JSON line per pair, so that work can be resumed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feda3i.errors import DataError
from feda3i.files import PART, write_file
from feda3i.reading.names import is_id
from feda3i.reading.prepared import JOURNAL, IndexRow, is_made_here
from feda3i.reading.problems import Problem

SCRATCH = ".feda3i-scratch"  # inflated archives lie here while they are read
HEAD = frozenset({"options", "set", "share", "seed"})  # of the first line: how cases are made


def check_places(source: Path, folder: Path) -> None:
    """Raise ``DataError`` if there is no source, or if writing could harm what is in the folder."""
    if not source.exists():
        raise DataError(f"there is no folder or archive '{source}'")
    inner, outer = folder.resolve(), source.resolve()
    if inner == outer or outer in inner.parents or inner in outer.parents:
        raise DataError(
            f"'{folder}' and '{source}' are inside one another: choose a folder outside the source"
        )
    if folder.exists() and not folder.is_dir():
        raise DataError(f"expected a folder to write to, found a file: '{folder}'")
    if folder.is_dir() and not is_target(folder):
        raise DataError(
            f"'{folder}' is not empty and holds no set prepared by us: choose another folder"
        )


def is_target(folder: Path) -> bool:
    """Return whether a folder is empty or was written by a preparation, finished or not.

    A file called ``manifest.json`` proves nothing, many programs write one: what it says does.
    """
    found = [item for item in folder.iterdir() if not _is_left_over(item)]
    return not found or is_made_here(folder) or read_journal(folder)[0] is not None


@contextlib.contextmanager
def open_target(folder: Path) -> Iterator[Path]:
    """Make the folder, and yield a place for large temporary files that is removed at the end.

    If the work fails before the first case is done, nothing is left behind.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder / SCRATCH
    finally:
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)
        if not read_journal(folder)[1]:
            with contextlib.suppress(OSError):  # a folder that holds anything stays
                for name in ("images", "masks"):
                    if (folder / name).exists():
                        (folder / name).rmdir()
                (folder / JOURNAL).unlink(missing_ok=True)
                if is_new:
                    folder.rmdir()


def _is_left_over(item: Path) -> bool:
    """Return whether this may be left from a preparation that was killed at its start."""
    return item.name == SCRATCH or (item.name.startswith(PART) and item.name.endswith(JOURNAL))


@dataclass(frozen=True)
class PairResult:
    """What became of one pair: its cases (several for a volume) and what was noticed."""

    name: str
    rows: tuple[IndexRow, ...]
    problems: tuple[Problem, ...]

    def line(self) -> str:
        """Return the outcome as one line of JSON."""
        record = {
            "name": self.name,
            "rows": [vars(row) for row in self.rows],
            "problems": [[p.level, p.kind, p.name, p.text] for p in self.problems],
        }
        return json.dumps(record, sort_keys=True) + "\n"


def start_journal(folder: Path, record: dict[str, Any], overwrite: bool) -> dict[str, PairResult]:
    """Return what was done before with the same options, and mark the folder as unfinished.

    Parameters
    ----------
    record
        Set and options; a folder made with others is refused, or with ``overwrite`` emptied.
    """
    head, found = read_journal(folder)
    if head != record:
        if head is not None and not overwrite:
            raise DataError(
                f"'{folder}' holds a set prepared with other options: choose another folder, "
                "or add --overwrite to prepare it again"
            )
        remove_cases(folder, (row.id for outcome in found.values() for row in outcome.rows))
        found = {}
    remove_parts(folder)
    (folder / "manifest.json").unlink(missing_ok=True)
    write_journal(folder, record, found.values())
    return found


def read_journal(folder: Path) -> tuple[dict[str, Any] | None, dict[str, PairResult]]:
    """Return the options of a preparation and what it has done.

    Nothing for lines that are no lines of ours: the one that was being written when the run was
    stopped, or damaged ones. What they stand for is simply done again.
    """
    if not (folder / JOURNAL).is_file():
        return None, {}
    text = (folder / JOURNAL).read_bytes().decode("utf-8", "replace")
    lines = text.split("\n")
    head = _json(lines[0])
    if not isinstance(head, dict) or not set(head) >= HEAD:
        head = None
    return head, {o.name: o for o in map(_outcome, lines[1:]) if o is not None}


def remove_parts(folder: Path) -> None:
    """Remove the files that a preparation was writing when it was killed."""
    for place in (folder, folder / "images", folder / "masks"):
        for part in place.glob(f"{PART}[0-9]*-*"):
            if part.is_file():
                part.unlink(missing_ok=True)


def write_journal(folder: Path, record: dict[str, Any], outcomes: Iterable[PairResult]) -> None:
    """Rewrite the journal in the given order."""
    lines = [outcome.line() for outcome in outcomes if outcome.rows]
    head = json.dumps(record, sort_keys=True)
    write_file(folder / JOURNAL, f"{head}\n{''.join(lines)}".encode(), durable=False)


def remove_cases(folder: Path, ids: Iterable[str]) -> None:
    """Remove the files of cases that the journal says are ours."""
    for name in ids:
        for kind in ("images", "masks"):
            for extension in ("png", "npy"):
                (folder / kind / f"{name}.{extension}").unlink(missing_ok=True)


def _outcome(line: str) -> PairResult | None:
    record = _json(line)
    try:
        rows = tuple(IndexRow(**row) for row in record["rows"])
        problems = tuple(Problem(*map(str, p)) for p in record["problems"])  # type: ignore[arg-type]
        if all(isinstance(v, str) for row in rows for v in vars(row).values()) and all(
            is_id(row.id) for row in rows
        ):
            return PairResult(str(record["name"]), rows, problems)
    except (TypeError, KeyError):
        pass
    return None


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
