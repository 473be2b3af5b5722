"""The event log: one JSON object per line, the single source of every number of a run."""

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from feda3i.errors import RunError
from feda3i.values import LARGEST, mistakes

Event = dict[str, Any]
Real = Annotated[float, Field(gt=-1e100, lt=1e100)]  # a number that is not too large to sum
Number = Real | None  # None stands for a number that was not finite


class Record(BaseModel):
    """What a line or a file of a run must hold to be read; further keys are allowed."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class _Start(Record):
    recipe: dict[str, Any]
    stages: list[str]


class _Round(Record):
    round: int
    asked: int
    answered: int
    missing: dict[str, str]
    loss: Number
    site_loss: dict[str, Number]
    site_seconds: dict[str, Real] = {}
    seconds: Real
    dice: Number = None
    said: list[str] = []
    weights: dict[str, Number | list[Number]] = {}
    guarded: dict[str, str] = {}
    survey: Any = None


class _Row(Record):
    case: str
    of_class: int = Field(alias="class")
    dice: Number = None
    iou: Number = None
    hd95: Number = None
    assd: Number = None
    covered: Number = None
    empty: str = ""
    source: str = ""
    site: str = ""


class _Score(Record):
    round: int
    split: str
    rows: list[_Row]


class _Note(Record):
    text: str
    is_result: bool


class _Join(Record):
    sites: dict[str, int]


_KINDS: dict[str, type[Record]] = {
    "start": _Start,
    "round": _Round,
    "score": _Score,
    "note": _Note,
    "join": _Join,
}


class EventLog:
    """Append events to a file, and tell them to whoever listens."""

    def __init__(self, path: Path, listen: Callable[[Event], None] | None = None) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._listen = listen

    def write(self, event: str, **values: Any) -> Event:
        """Append one event and return it."""
        line = {"event": event, **plain(values)}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        if self._listen is not None:
            self._listen(line)
        return line

    def sync(self) -> None:
        """Put all of it on disk, before a checkpoint names it."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_events(path: Path, kind: str | None = None) -> Iterator[Event]:
    """Yield the events of a log; a last line without an end (a crash) is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"the event log '{path}' cannot be read: {error}") from None
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.endswith("\n"):
            event = parse_event(line)
            if event is None:
                what = f"damaged: line {number} is not an event; restore it from a copy"
                raise RunError(f"the event log '{path}' is {what}")
            if kind is None or event["event"] == kind:
                yield event


def last_rows(path: Path, split: str = "test") -> list[dict[str, Any]]:
    """Return the scores of single cases that a log wrote last; none if there are none."""
    rows: list[dict[str, Any]] = []
    for event in read_events(path, "score"):
        rows = event["rows"] if event["split"] == split else rows
    return rows


def parse_event(line: str | bytes) -> Event | None:
    """Return the event of a line; ``None`` if it holds none, or one that no run writes."""
    try:
        event = json.loads(line, parse_constant=_refuse, parse_int=_whole)
        kind = event["event"]
        if kind in _KINDS:
            _KINDS[kind].model_validate(event)
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return None
    return event if isinstance(event, dict) and isinstance(kind, str) else None


def mistake_of(error: Exception) -> str:
    """Return the first mistake that a typed check found, in one line; other errors in words."""
    return mistakes(error).splitlines()[0] if isinstance(error, ValidationError) else str(error)


def _whole(digits: str) -> int:
    if abs(number := int(digits)) > LARGEST:
        raise ValueError("a number of more than 64 bits")
    return number


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def plain(value: Any) -> Any:
    """Return JSON values; arrays become lists and numbers that are not finite become ``None``.

    >>> plain({"q": np.array([1.0, float("nan")])})
    {'q': [1.0, None]}
    """
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
