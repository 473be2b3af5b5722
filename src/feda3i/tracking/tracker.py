"""Feed events to sinks; a failure is reported once, and the run continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from feda3i.errors import RecipeError, nearest, summary
from feda3i.log.events import Event
from feda3i.tracking.event_numbers import event_numbers, params_of

SINKS = {
    "tensorboard": "feda3i.tracking.to_tensorboard:TensorBoardSink",
    "mlflow": "feda3i.tracking.to_mlflow:MlflowSink",
}


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

    Parameters
    ----------
    title
        What the run is called there.
    tell
        Gets a sentence for the user.
    first
        The first round that will come: later than 1 if a run is resumed, ``None`` for a copy of
        a run made after the fact.
    target
        A folder (TensorBoard) or a tracking URI (MLflow) of the user's choice.
    """
    sinks: dict[str, Sink] = {}
    for name in names:
        if name not in SINKS:
            raise RecipeError(
                f"tracking: expected one of {', '.join(SINKS)}, found '{name}'"
                f"{nearest(name, list(SINKS))}"
            )
        try:
            sinks[name] = _open(name, folder, title, first, target)
        except ImportError as error:
            tell(
                f"NOTE: no tracking by {name}: {summary(error)}; install it with "
                f"pip install 'feda3i[tracking]'"
            )
        except Exception as error:  # any: a server that does not answer, a folder not writable
            tell(f"NOTE: no tracking by {name}: {summary(error)}")
    return Tracker(sinks, tell)


def _open(name: str, folder: Path, title: str, first: int | None, target: str | None) -> Sink:
    module, _, kind = SINKS[name].partition(":")
    made: Sink = getattr(import_module(module), kind)(folder, title, first, target)
    return made
