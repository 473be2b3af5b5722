"""What a bench reports while it works: runs done, runs under way, time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from rich.console import Console
from rich.live import Live
from rich.text import Text

from feda3i.failures import raw_stderr

OFTEN = 60.0
"""Seconds between two lines about runs under way where there is no terminal."""


class Progress:
    """Lines about finished runs, and a live part about those under way.

    ``total`` counts the runs of this bench, those that were done before included.
    """

    def __init__(
        self,
        total: int,
        done: int,
        quiet: bool = False,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(file=raw_stderr())
        self._total, self._done, self._quiet, self._clock = total, done, quiet, clock
        self._started, self._told = clock(), clock()
        is_live = self._console.is_terminal and not quiet
        self._live = Live(console=self._console, auto_refresh=False) if is_live else None
        if self._live is not None:
            self._live.start()

    def finished(self, name: str, text: str) -> None:
        """Say how a run ended."""
        self._done += 1
        self.note(f"[{self._done}/{self._total}] {name}  {text}")

    def under_way(self, rounds: Mapping[str, str], seconds_left: float) -> None:
        """Show the runs under way and the time left."""
        clock = str(timedelta(seconds=int(seconds_left)))
        head = f"{self._done}/{self._total} runs done, {clock} left"
        if self._live is not None:
            lines = [f"  {name}  {text}" for name, text in rounds.items()]
            self._live.update(Text("\n".join([head, *lines])), refresh=True)
        elif not self._quiet and self._clock() - self._told >= OFTEN:
            self._told = self._clock()
            now = "; ".join(f"{name} {text}" for name, text in rounds.items())
            self.note(f"{head} ({now})")

    def note(self, text: str) -> None:
        """Say something about the bench, unless it is to be quiet."""
        if not self._quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def end(self) -> None:
        """Leave the screen as it is."""
        if self._live is not None:
            self._live.stop()
