"""What the operator sees of a run while it goes on: a page and numbers, written again all the time.

``operator.html`` in the run folder is for eyes, ``metrics.prom`` for Prometheus (the textfile
collector of node_exporter). Both come from the event log and from who is connected now; they hold
names, numbers and reasons, no pixels and no parameters. Neither can stop a run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from feda3i.basics.files import write_file
from feda3i.engine.console import Listener, Relay
from feda3i.flower.roster import Roster

PAGE, METRICS = "operator.html", "metrics.prom"
OFTEN = 5.0
"""Seconds between two pages within a round; the page loads itself again as often."""


@dataclass
class SiteTally:
    """What a site has done in a run so far."""

    cases: int = 0
    answered: int = 0
    missed: int = 0
    guarded: int = 0
    last: int = 0
    reason: str = ""
    loss: float | None = None
    seconds: float | None = None
    answer_seconds: float | None = None
    sent: int = 0
    received: int = 0


@dataclass
class Tally:
    """A run so far, by round and by site."""

    rounds: list[dict[str, Any]] = field(default_factory=list)
    sites: dict[str, SiteTally] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> None:
        """Count a round's event."""
        self.rounds.append(dict(event))
        for site, loss in event["site_loss"].items():
            one = self.of(site)
            one.answered += 1
            one.last, one.loss, one.reason = event["round"], loss, ""
            one.seconds = event["site_seconds"].get(site)
        for site, reason in event["missing"].items():
            one = self.of(site)
            one.missed += 1
            one.reason = reason
        for site in event.get("guarded", {}):
            self.of(site).guarded += 1
        for site, seconds in event.get("answer_seconds", {}).items():
            self.of(site).answer_seconds = seconds
        for site, size in event.get("bytes_sent", {}).items():
            self.of(site).sent += size
        for site, size in event.get("bytes_received", {}).items():
            self.of(site).received += size

    def of(self, site: str) -> SiteTally:
        """Return the tally of a site."""
        return self.sites.setdefault(site, SiteTally())


@dataclass
class Glance:
    """All that a page shows: the tally, and how things are now."""

    name: str
    folder: Path
    tally: Tally
    title: str = ""
    planned: int = 0
    state: str = "running"  # running, done or stopped; then ``reason`` says why
    reason: str = ""
    now: dict[str, str] = field(default_factory=dict)  # site -> present, away, refused or locked
    why: dict[str, str] = field(default_factory=dict)  # site -> why it is refused or locked
    versions: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, float | None] = field(default_factory=dict)
    """Site that has not answered yet -> seconds since it was asked, ``None`` if it is not there."""


class Watch(Relay):
    """Pass on what a run says, and keep page and numbers up to date.

    ``page`` makes the text of an HTML file from a glance; ``metrics`` is a folder for a copy of the
    numbers under the run's name, where a collector looks.
    """

    def __init__(
        self,
        inner: Listener,
        folder: Path,
        roster: Roster,
        page: Callable[[Glance, bool], str],
        metrics: Path | None = None,
    ) -> None:
        super().__init__(inner)
        self.folder, self.roster, self.page, self.metrics = folder, roster, page, metrics
        self.glance = Glance(folder.name, folder, Tally())
        self._read, self._written, self._has_failed = 0, 0.0, False

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Pass it on and write the first page."""
        self.inner.begin(title, rounds, done)
        self.glance.title, self.glance.planned = title, rounds
        self.write(has_round=True)

    def round(self, event: dict[str, Any]) -> None:
        """Pass it on and write the page of the round."""
        self.inner.round(event)
        self.glance.waiting = {}
        self.write(has_round=True)

    def look(self, waiting: Mapping[str, float | None]) -> None:
        """Say who has not answered yet; the page is written now and then."""
        self.glance.waiting = dict(waiting)
        if time.monotonic() - self._written >= OFTEN:
            self.write()

    def finish(self, error: BaseException | None = None) -> None:
        """Write the last page: it is done, or why it stopped."""
        self.glance.waiting = {}
        self.glance.state = "done" if error is None else "stopped"
        self.glance.reason = "" if error is None else str(error) or type(error).__name__
        self.write(has_round=True)

    def write(self, has_round: bool = False) -> None:
        """Write page and numbers; an error is reported once, and the run goes on."""
        self._written = time.monotonic()
        try:
            self._look_around()
            numbers = metrics_of(self.glance).encode()
            write_file(self.folder / METRICS, numbers, durable=False)
            if self.metrics is not None:
                place = self.metrics / f"feda3i-{self.glance.name}.prom"
                write_file(place, numbers, durable=False, mode=0o644)
            text = self.page(self.glance, has_round)
            data = text.encode("utf-8", "backslashreplace")
            write_file(self.folder / PAGE, data, durable=False)
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                self.inner.note(f"the operator's page cannot be written: {error!r}")

    def _look_around(self) -> None:
        """Read new events, and who is there now."""
        glance, roster = self.glance, self.roster
        events = self.folder / "events.jsonl"
        if events.exists():
            with events.open("rb") as file:
                file.seek(self._read)
                lines = file.read().splitlines(keepends=True)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                event = json.loads(line)
                if event["event"] == "round":
                    glance.tally.take(event)
        for site, cases in roster.cases().items():
            glance.tally.of(site).cases = cases
        names = sorted({*roster.expected, *glance.tally.sites, *roster.refused})
        glance.now = {site: roster.state(site) for site in names}
        glance.why = {
            **roster.refused,
            **{site: roster.why(site) for site in names if site in roster.locked},
        }
        glance.versions = roster.versions()


def metrics_of(glance: Glance) -> str:
    """Return the numbers in Prometheus' text format."""
    run, state = f'run="{glance.name}"', glance.state
    last = glance.tally.rounds[-1] if glance.tally.rounds else {}
    lines: list[str] = []
    lines += _metric("running", "1 while the run goes on", {run: float(state == "running")})
    lines += _metric("done", "1 if the run has come to its end", {run: float(state == "done")})
    lines += _metric("updated_seconds", "when this was written, Unix time", {run: time.time()})
    lines += _metric("rounds_planned", "rounds of the recipe", {run: glance.planned})
    lines += _metric("round", "rounds that are finished", {run: last.get("round", 0)})
    for key, words in (
        ("loss", "mean training loss"),
        ("dice", "mean Dice on the test cases"),
        ("seconds", "seconds of the round"),
        ("asked", "sites that were asked"),
        ("answered", "sites that answered"),
    ):
        if last.get(key) is not None:
            lines += _metric(f"round_{key}", f"{words}, last round", {run: last[key]})
    sites = {f'{run},site="{site}"': one for site, one in glance.tally.sites.items()}
    for kind in ("present", "refused", "locked"):
        found = {f'{run},site="{s}"': float(now == kind) for s, now in glance.now.items()}
        lines += _metric(f"site_{kind}", f"1 if the site is {kind} now", found)
    for key, name, words in (
        ("cases", "site_cases", "cases as the site says"),
        ("answered", "site_answered_total", "rounds that the site answered"),
        ("missed", "site_missed_total", "rounds that the site missed"),
        ("guarded", "site_guarded_total", "rounds in which the guard acted on the site"),
        ("sent", "site_sent_bytes_total", "bytes sent to the site"),
        ("received", "site_received_bytes_total", "bytes received from the site"),
        ("loss", "site_loss", "the site's training loss, last round"),
        ("seconds", "site_work_seconds", "seconds of the site's work, last round"),
        ("answer_seconds", "site_answer_seconds", "seconds until its answer came, last round"),
    ):
        values = {label: getattr(one, key) for label, one in sites.items()}
        lines += _metric(name, words, {label: v for label, v in values.items() if v is not None})
    return "\n".join([*lines, ""])


def _metric(name: str, words: str, values: Mapping[str, float]) -> list[str]:
    if not values:
        return []
    kind = "counter" if name.endswith("_total") else "gauge"
    about = [f"# HELP feda3i_{name} {words}", f"# TYPE feda3i_{name} {kind}"]
    return about + [f"feda3i_{name}{{{label}}} {value!r}" for label, value in values.items()]
