"""The console: a live line per round on a terminal, plain lines elsewhere, nothing if quiet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.text import Text

from feda3i.errors import escaped
from feda3i.failures import raw_stderr

OFTEN = 30.0
"""Seconds between two lines of a log within a round; a run's first site appears at once."""


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


class Silent(Listener):
    """A listener that says nothing."""


class Relay(Listener):
    """Pass everything on to another listener, but for what a subclass hears itself."""

    def __init__(self, inner: Listener) -> None:
        self.inner = inner
        for told in ("note", "doing", "begin", "site", "scored", "round", "end"):
            if getattr(type(self), told) is getattr(Listener, told):
                setattr(self, told, getattr(inner, told))


class Clock(ProgressColumn):
    """Time left while a run is under way, time taken at its end; each says which it is."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """Return ``0:02:10 left`` or ``took 0:05:31``."""
        if task.finished:
            return Text(f"took {_clock(task.finished_time)}", style="progress.elapsed")
        # Not rich's own guess: it has none before the second site and forgets slow rounds.
        ends = task.fields.get("ends")
        left = None if ends is None else max(ends - task.get_time(), 0.0)
        return Text(f"{_clock(left)} left", style="progress.remaining")


def _clock(seconds: float | None) -> str:
    return "-:--:--" if seconds is None else str(timedelta(seconds=int(seconds)))


class Live(Listener):
    """A progress bar with sites, loss, Dice and time left; one plain line per round in a log."""

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(file=raw_stderr())
        self._clock = clock
        self._bar: Progress | None = None
        self._last: dict[str, Any] = {}

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.print(escaped(text, kept="\n"), highlight=False, markup=False, soft_wrap=True)

    def doing(self, text: str) -> None:
        """Show what is under way: a first round may take long, and silence looks like a hang."""
        self.note(f"{text} ...")

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Show the bar."""
        self._rounds, self._dice = rounds, ""
        self._warned: set[str] = set()
        self._started, self._done_before, self._done = self._clock(), done, done
        self._told: float | None = None
        self._last = {}
        # Once, above the rounds: a title is long, and repeated it hides the numbers.
        self.note(f"{title}: round {done + 1} of {rounds} begins")
        if not self._console.is_terminal:
            return
        self._bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            Clock(),
            console=self._console,
            get_time=self._clock,
        )
        self._task = self._bar.add_task("", total=rounds, completed=done, facts="")
        self._bar.start()

    def site(self, answered: int, asked: int) -> None:
        """Show how many sites have answered."""
        # The server's own work counts as one more site: a round is over when round() says so.
        within = self._done + answered / (asked + 1)
        is_due = self._told is None or self._clock() - self._told >= OFTEN
        if self._bar is not None or is_due:
            self._show(self._done + 1, f"sites {answered}/{asked}", within)

    def scored(self, dice: dict[int, float], warnings: Sequence[str]) -> None:
        """Show the Dice of several classes; a warning appears when it begins to hold."""
        by_class = " ".join(f"{k}:{value:.3f}" for k, value in dice.items())
        self._dice = f" ({by_class})" if len(dice) > 1 else ""
        for warning in sorted(set(warnings) - self._warned):
            self.note(f"NOTE: after round {self._done + 1} {warning}")
        self._warned = set(warnings)

    def round(self, event: dict[str, Any]) -> None:
        """Show a finished round."""
        self._done = int(event["round"])
        self._last.update({k: event[k] for k in ("loss", "dice") if event.get(k) is not None})
        for line in event.get("said", ()):
            self.note(line)
        self._show(self._done, f"sites {event['answered']}/{event['asked']}", self._done)

    def _show(self, number: int, sites: str, done: float) -> None:
        """Move the bar, or write a line of the log."""
        facts = sites + "".join(f"  {name} {value:.4f}" for name, value in self._last.items())
        facts += self._dice
        if self._bar is not None:
            ends = self._clock() + self._left(done)
            self._bar.update(self._task, facts=facts, completed=done, ends=ends)
            return
        self._told = self._clock()
        left = f"{self._left(done):.0f} s left"
        self.note(f"round {number}/{self._rounds}  {facts}  {left}")

    def _left(self, done: float) -> float:
        """Return the seconds left after this many rounds, which may include a part of one."""
        played = done - self._done_before
        spent = self._clock() - self._started
        return spent / played * (self._rounds - done) if played > 0 else 0.0

    def end(self) -> None:
        """Leave the finished bar on the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
