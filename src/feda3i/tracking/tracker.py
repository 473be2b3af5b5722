"""Feed the numbers of events to sinks; a failure is reported once, and the run continues."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from feda3i.errors import check_choice, summary
from feda3i.log.events import Event
from feda3i.values import flat_items

SINKS = {
    "tensorboard": "feda3i.tracking.to_tensorboard:TensorBoardSink",
    "mlflow": "feda3i.tracking.to_mlflow:MlflowSink",
}
SKIPPED = frozenset({"event", "round", "rows", "said", "missing", "survey", "survey_missing"})
"""Keys of an event that are no numbers, or become numbers in another way."""


class Sink(Protocol):
    """Where numbers go."""

    where: str
    """Where to look at them, in words."""

    def begin(self, params: Mapping[str, str]) -> None:
        """Take the recipe."""

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Take the numbers of a round."""

    def note(self, text: str, step: int) -> None:
        """Take a sentence about the run."""

    def end(self, is_done: bool) -> None:
        """Write what is left; ``is_done`` says whether the run came to its end."""


class Tracker:
    """Sinks of one run, each until it fails for the first time."""

    def __init__(self, sinks: Mapping[str, Sink], tell: Callable[[str], None]) -> None:
        self.sinks = dict(sinks)
        self._tell = tell
        self._round = 0

    def take(self, event: Event) -> None:
        """Pass an event on."""
        kind = event.get("event")
        if kind == "start":
            params = params_of(event["recipe"])
            self._each(lambda sink: sink.begin(params))
        elif kind == "round":
            self._round = int(event["round"])
            values = event_numbers(event)
            self._each(lambda sink: sink.numbers(values, self._round))
            for line in event.get("said", ()):
                self._note(str(line))
        elif kind == "note":
            self._note(str(event["text"]))

    def _note(self, text: str) -> None:
        self._each(lambda sink: sink.note(text, self._round))

    def end(self, is_done: bool) -> None:
        """Close all sinks."""
        self._each(lambda sink: sink.end(is_done))
        self.sinks = {}

    def _each(self, do: Callable[[Any], None]) -> None:
        for name, sink in list(self.sinks.items()):
            try:
                do(sink)
            except Exception as error:  # any: it is somebody else's program, and only a copy
                del self.sinks[name]
                self._tell(f"NOTE: tracking by {name} stopped, the run continues: {summary(error)}")


def open_tracker(
    names: Sequence[str],
    folder: Path,
    title: str,
    tell: Callable[[str], None],
    *,
    first: int | None = 1,
    target: str | None = None,
) -> Tracker:
    """Open sinks for a run; one that cannot be opened is reported and left out.

    ``first`` is the first round that will come: later than 1 if a run is resumed, ``None`` for a
    copy of a run made after the fact. ``target`` is a folder (TensorBoard) or a tracking URI
    (MLflow) of the user's choice.
    """
    sinks: dict[str, Sink] = {}
    for name in names:
        check_choice("tracking", name, SINKS)
        module, _, kind = SINKS[name].partition(":")
        try:
            sinks[name] = getattr(import_module(module), kind)(folder, title, first, target)
        except ImportError as error:
            tell(
                f"NOTE: no tracking by {name}: {summary(error)}; install it with "
                f"pip install 'feda3i[tracking]'"
            )
        except Exception as error:  # any: a server that does not answer, a folder not writable
            tell(f"NOTE: no tracking by {name}: {summary(error)}")
    return Tracker(sinks, tell)


# -- what a sink gets ------------------------------------------------------------------------------


def event_numbers(event: Event) -> dict[str, float]:
    """Return the numbers of an event by name; ``site_loss/A`` is that of site A.

    Scores are the means of the round's own summary; rows of single cases are left out.

    >>> event_numbers({"event": "round", "round": 2, "loss": 0.5, "site_loss": {"A": 0.4}})
    {'loss': 0.5, 'site_loss/A': 0.4}
    """
    if event["event"] != "round":
        return {}
    found: dict[str, float] = {}
    for key, value in event.items():
        if key not in SKIPPED:
            found.update(_flat(key, value))
    found.update(_survey(event.get("survey")))
    return found


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield numbers of a value: itself, those of a dictionary, those of a short list."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        if math.isfinite(value):
            yield name, float(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{name}/{key}", item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for place, item in enumerate(value, 1):
            yield from _flat(f"{name}/{place}", item)


def _survey(survey: Any) -> Iterator[tuple[str, float]]:
    """Yield the offset of each site that was asked for it."""
    if not isinstance(survey, Mapping):
        return
    parts = survey.get("parts", ())
    for part in parts:
        name = "offset" if len(parts) == 1 else f"offset_of_class_{part.get('class_number')}"
        pairs = part.get("offset") or ()
        for site, pair in zip(survey.get("sites", ()), pairs, strict=False):
            yield from _flat(f"{name}/{site}", pair[0])


def params_of(recipe: Mapping[str, Any]) -> dict[str, str]:
    """Return a recipe as flat text: ``train.lr`` -> ``0.005``."""
    return {key: str(value) for key, value in flat_items(recipe)}
