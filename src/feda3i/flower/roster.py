"""Who is there: nodes are greeted when they connect, and what they claim is checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from feda3i import __version__
from feda3i.errors import RunError, WireError
from feda3i.flower import records
from feda3i.flower.node import SITE_NAME
from feda3i.flower.records import PROTOCOL, Header

LOST = (3, 4, 5)
"""Flower's error codes for a message or a node that is gone; the site may be asked again."""
REASONS = {
    1: "its app could not be loaded",
    2: "its app failed",
    3: "the order is gone",
    4: "the reply is gone",
    5: "the node went offline",
    7: "it refused the app",
    8: "its app crashed",
}
HELLO_TTL = 600.0
"""Seconds that a node may take to say hello; reading its cases for the first time takes a while."""


@dataclass(frozen=True)
class Greeting:
    """What a site said when it came: its node, its cases and the network it builds."""

    node: int
    site: str
    cases: int
    layout: str
    channels: int
    classes: int
    shape: tuple[int, ...]
    version: str


class Roster:
    """The sites of a consortium as they come, go and return.

    Parameters
    ----------
    grid
        Flower's grid.
    expected
        Names of the sites that belong to the consortium; empty if unknown. Others are turned away.
    layout
        Digest of the network's layout that sites must have; ``None`` until the server knows it.
    """

    def __init__(self, grid: Grid, expected: Sequence[str] = (), layout: str | None = None) -> None:
        self.grid = grid
        self.expected = tuple(expected)
        self.layout = layout
        self.known: dict[str, Greeting] = {}
        self.remembered: dict[str, int] = {}
        self.refused: dict[str, str] = {}
        self._present: dict[int, tuple[str, str]] = {}
        self._greeted: dict[int, str] = {}
        self._asked: dict[str, int] = {}
        self._shut: dict[int, str] = {}

    def refresh(self) -> None:
        """Look who is connected, greet who is new or restarted, read the hellos that came."""
        nodes = self.grid.get_nodes()
        self._present = {n.node_id: (n.name, n.last_activated_at) for n in nodes}
        self._greeted = {
            node: start
            for node, start in self._greeted.items()
            if self._present.get(node, ("", ""))[1] == start
        }
        for node, (_, start) in self._present.items():
            if node not in self._greeted:
                self._greeted[node] = start
                content = records.write(Header("hello"), {})
                message = Message(content, node, "query.hello", ttl=HELLO_TTL)
                self._asked[next(iter(self.grid.push_messages([message])))] = node
        for identifier in list(self._asked):
            for reply in self.grid.pull_messages([identifier]):
                self._read(self._asked.pop(identifier), reply)

    def node_of(self, site: str) -> tuple[int, str] | None:
        """Return a site's node and when it was started, or ``None`` if it cannot be asked now."""
        greeting = self.known.get(site)
        if greeting is None or greeting.node not in self._present or greeting.node in self._shut:
            return None
        if greeting.node in self._asked.values() or greeting.node not in self._greeted:
            return None  # it was restarted and has not said hello again
        return greeting.node, self._present[greeting.node][1]

    def why(self, site: str) -> str:
        """Return why a site cannot be asked now."""
        greeting = self.known.get(site)
        return self._shut.get(greeting.node if greeting else -1, "it was not connected")

    def cases(self) -> dict[str, int]:
        """Return the number of cases of every site that was ever there, by name.

        Sites that took part before a resume are remembered, whether they have come back or not.
        """
        cases = {**self.remembered, **{site: g.cases for site, g in self.known.items()}}
        return dict(sorted(cases.items()))

    def absent(self) -> list[str]:
        """Return the expected sites that have not said hello since the run began."""
        return sorted(set(self.expected) - set(self.known))

    def wait(self, least: int, patience: float, deadline: float, poll: float = 0.5) -> None:
        """Wait for all expected sites for a while, and for ``least`` of them until the deadline."""
        begin = time.monotonic()
        while True:
            self.refresh()
            spent = time.monotonic() - begin
            is_enough = len(self.known) >= least
            if is_enough and (spent > patience or len(self.known) >= len(self.expected)):
                return
            if spent > deadline:
                break
            time.sleep(poll)
        turned_away = "".join(f"; {name}: {why}" for name, why in self.refused.items())
        raise RunError(
            f"{len(self.known)} sites came within {deadline:.0f} s, at least {least} must; "
            f"missing: {', '.join(self.absent()) or 'unknown'}{turned_away}"
        )

    def _read(self, node: int, reply: Message) -> None:
        registered = self._present.get(node, ("", ""))[0]
        label = registered or f"node {node}"
        try:
            if reply.has_error() and reply.error.code in LOST:
                self._greeted.pop(node, None)  # it is greeted again if it is there
                return
            if reply.has_error():
                reason = REASONS.get(reply.error.code, "no hello")
                raise WireError(f"{reason} ({str(reply.error.reason)[:300]})")
            greeting = self._greeting(node, reply)
            self._check(greeting, registered)
        except WireError as error:
            self.refused[label] = self._shut[node] = str(error)
            return
        self.refused.pop(label, None)
        self._shut.pop(node, None)
        self.known[greeting.site] = greeting

    def _greeting(self, node: int, reply: Message) -> Greeting:
        header, body = records.read_header(reply.content)
        if header.protocol != PROTOCOL:
            raise WireError(
                f"it speaks protocol {header.protocol}, this server {PROTOCOL}; install feda3i "
                f"{__version__} at the site"
            )
        if header.kind == "refusal":
            raise WireError(str(body.get("reason", "it refused"))[:500])
        shape = body.get("shape")
        sizes: list[Any] = shape if isinstance(shape, list) and len(shape) in (2, 3) else [None]
        numbers: list[Any] = [body.get(name) for name in ("cases", "channels", "classes")]
        if header.kind != "hello" or any(type(n) is not int or n < 1 for n in (*numbers, *sizes)):
            raise WireError("its hello does not say cases, channels, classes and shape")
        cases, channels, classes = numbers
        version = str(body.get("version", ""))[:40]
        return Greeting(
            node, header.site, cases, header.layout, channels, classes, tuple(sizes), version
        )

    def _check(self, greeting: Greeting, registered: str) -> None:
        site = greeting.site
        if not SITE_NAME.fullmatch(site):
            raise WireError("its name is not one of letters, digits, - and _")
        if registered and registered != site:
            raise WireError(f"it calls itself '{site}', its key is registered as '{registered}'")
        if self.expected and site not in self.expected:
            raise WireError(f"'{site}' is not a site of this consortium")
        other = self.known.get(site)
        if other is not None and other.node != greeting.node and other.node in self._present:
            raise WireError(f"another node already answers as '{site}'")
        if self.layout is not None and greeting.layout != self.layout:
            raise WireError(
                f"it builds another network from the recipe than the server (feda3i "
                f"{greeting.version} there, {__version__} here; cases of {greeting.channels} "
                f"channels, {greeting.classes} classes and size {greeting.shape})"
            )
