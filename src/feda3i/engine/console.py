"""The console: a bar on a terminal, a plain line per round elsewhere, nothing if quiet."""

from collections.abc import Sequence
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from feda3i.errors import escaped
from feda3i.failures import raw_stderr


class Listener:
    """What the round loop reports while it works; by default nobody listens."""

    def note(self, text: str) -> None:
        """Say something about the run as a whole."""

    def doing(self, text: str) -> None:
        """Say what is under way before the first round."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Say that a run starts after ``done`` rounds."""

    def site(self, answered: int, asked: int) -> None:
        """Say how many sites of the round have answered."""

    def scored(self, dice: dict[int, float], warnings: Sequence[str]) -> None:
        """Say the Dice of each class on the test cases, and which of them collapsed."""

    def round(self, event: dict[str, Any]) -> None:
        """Say what came out of a round."""

    def end(self) -> None:
        """Say that the run is over."""


Silent = Listener


class Relay(Listener):
    """Pass everything on to another listener, but for what a subclass hears itself."""

    def __init__(self, inner: Listener) -> None:
        self.inner = inner
        for told in ("note", "doing", "begin", "site", "scored", "round", "end"):
            if getattr(type(self), told) is getattr(Listener, told):
                setattr(self, told, getattr(inner, told))


class Live(Listener):
    """A progress bar with sites, loss, Dice and time left; one plain line per round in a log."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=raw_stderr())
        self._bar: Progress | None = None

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.print(escaped(text, kept="\n"), highlight=False, markup=False, soft_wrap=True)

    def doing(self, text: str) -> None:
        """Show what is under way: silence looks like a hang."""
        self.note(f"{text} ...")

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Show the bar."""
        self._rounds, self._done = rounds, done
        self._scores: dict[str, float] = {}
        self._by_class = ""
        self._warned: set[str] = set()
        self.note(f"{title}: round {done + 1} of {rounds} begins")
        if not self._console.is_terminal:
            return
        self._bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
        )
        self._task = self._bar.add_task("", total=rounds, completed=done, facts="")
        self._bar.start()

    def site(self, answered: int, asked: int) -> None:
        """Show how many sites have answered."""
        # The server's own work counts as one more site: a round is over when round() says so.
        self._show(f"sites {answered}/{asked}", self._done + answered / (asked + 1))

    def scored(self, dice: dict[int, float], warnings: Sequence[str]) -> None:
        """Show the Dice of several classes; a warning appears when it begins to hold."""
        by_class = " ".join(f"{k}:{value:.3f}" for k, value in dice.items())
        self._by_class = f" ({by_class})" if len(dice) > 1 else ""
        for warning in sorted(set(warnings) - self._warned):
            self.note(f"NOTE: after round {self._done + 1} {warning}")
        self._warned = set(warnings)

    def round(self, event: dict[str, Any]) -> None:
        """Show a finished round."""
        self._done = int(event["round"])
        self._scores.update({k: event[k] for k in ("loss", "dice") if event.get(k) is not None})
        for line in event.get("said", ()):
            self.note(line)
        facts = self._show(f"sites {event['answered']}/{event['asked']}", self._done)
        if self._bar is None:
            self.note(f"round {self._done}/{self._rounds}  {facts}")

    def _show(self, sites: str, done: float) -> str:
        scores = "".join(f"  {name} {value:.4f}" for name, value in self._scores.items())
        facts = f"{sites}{scores}{self._by_class}"
        if self._bar is not None:
            self._bar.update(self._task, facts=facts, completed=done)
        return facts

    def end(self) -> None:
        """Leave the finished bar on the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
