"""The nodes of Flower's grid: messages to them, who is there, and what they say of themselves."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import httpx
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from pydantic import Field

from feda3i import __version__
from feda3i.core.wire import MAX_CASES
from feda3i.errors import RunError, WireError, printable, summary
from feda3i.flower import records
from feda3i.flower.node import SITE_NAME
from feda3i.flower.records import Header

MAX_CASE = 2**31  # numbers in all that one case can have
MAX_REFUSALS = 100
"""Refusals kept for the next event: a node that is refused again and again fills no log."""
HELLO_SECONDS = 600.0
"""What a node may take to say hello; reading its cases for the first time takes a while."""
_REASONS = {
    1: "its app could not be loaded",
    2: "its app failed",
    3: "the order is gone",
    4: "the reply is gone",
    5: "the node went offline",
    7: "it refused the app",
    8: "its app crashed",
}
_LOST = (3, 4, 5)

_Kinds = Annotated[int, Field(ge=1, le=1024)]
_Side = Annotated[int, Field(ge=1, le=2**16)]


class Greeting(records.Strict):
    """What a site said when it came: its cases and the network it builds."""

    node: int
    site: Annotated[str, Field(pattern=SITE_NAME)]
    layout: str
    cases: Annotated[int, Field(ge=1, le=MAX_CASES)]
    channels: _Kinds
    classes: _Kinds
    shape: Annotated[list[_Side], Field(min_length=2, max_length=3)]
    version: str


@dataclass
class _Node:
    """What is known of a node; ``start`` is ``None`` while it is not connected."""

    name: str = ""  # as its key is registered
    start: str | None = None
    greeted: str | None = None  # when it was started before it was greeted
    hello: str = ""  # the message that it has not answered yet
    refusal: str = ""  # why it is turned away


class LostError(Exception):
    """A message or a node is gone; the site may be asked again."""


class Roster:
    """The sites of a consortium as they come, go and return, and the messages to them.

    ``expected`` names the sites that belong to it, if that is known; others are turned away.
    ``bound`` holds the number of cases of every site that was ever there in this run: it decides
    how much a site counts, so it stays. ``layout`` is the digest of the network that sites must
    build, if the server knows. ``make`` makes a message: Flower's class does so only in processes
    that Flower has started.
    """

    def __init__(
        self,
        grid: Grid,
        expected: Sequence[str] = (),
        bound: Mapping[str, int] | None = None,
        make: Callable[..., Message] = Message,
    ) -> None:
        self.grid, self._make = grid, make
        self.expected, self.bound = tuple(expected), dict(bound or {})
        self.layout: str | None = None
        self.known: dict[str, Greeting] = {}
        self.refusals: list[str] = []
        self._nodes: defaultdict[int, _Node] = defaultdict(_Node)

    def send(self, content: RecordDict, node: int, seconds: float) -> str:
        """Send a message for some seconds; return its identifier, "" if it could not be sent."""
        message = self._make(content, node, "query", ttl=seconds)
        return next(iter(self.grid.push_messages([message])), None) or ""

    def fetch(self, identifier: str) -> RecordDict | None:
        """Return the reply to a message, if it has come; raise ``WireError`` if it is none.

        Replies are fetched one by one, so that a forged one spoils no other. What goes wrong
        between this process and the SuperLink is not the node's fault and is passed on as it is.
        """
        try:
            reply = next(iter(self.grid.pull_messages([identifier])), None)
        except (httpx.HTTPError, OSError, RuntimeError, MemoryError):
            raise
        except Exception as error:  # whatever Flower's reading of a forged message ends in
            text = f"its message cannot be read: {printable(summary(error), 300)}"
            raise WireError(text) from None
        if reply is None or not reply.has_error():
            return None if reply is None else reply.content
        code, reason = reply.error.code, printable(str(reply.error.reason), 300)
        kind = LostError if code in _LOST else WireError
        raise kind(f"{_REASONS.get(code, f'error {code}')} ({reason})")

    def refresh(self) -> None:
        """Look who is connected, greet who is new or restarted, read the hellos that came."""
        for node in self._nodes.values():
            node.start = None
        for found in self.grid.get_nodes():
            node = self._nodes[found.node_id]
            node.name, node.start = found.name, found.last_activated_at
        self._read_hellos()  # also of nodes that have been started again since
        for number, node in self._nodes.items():
            if node.start is not None and node.greeted != node.start:
                # What it said before it was started again does not count.
                content = records.write(Header("hello"), {})
                node.hello = self.send(content, number, HELLO_SECONDS)
                node.greeted = node.start if node.hello else None  # or at the next look
        self._read_hellos()

    def _read_hellos(self) -> None:
        for number, node in self._nodes.items():
            try:
                content = self.fetch(node.hello) if node.hello else None
                if content is None:
                    continue
                self._welcome(self._greeting(number, content), node)
            except LostError:
                node.greeted = None  # it is greeted again if it is there
            except WireError as error:
                self._refuse(number, str(error))
            node.hello = ""

    def node_of(self, site: str) -> tuple[int, str] | None:
        """Return a site's node and when it was started, or ``None`` if it cannot be asked now."""
        if site in self.known:
            node = self._nodes[number := self.known[site].node]
            if node.start is not None and node.greeted == node.start and not node.hello:
                return number, node.start
        return None  # it is away, or was restarted and has not said hello again

    def refused(self) -> dict[str, str]:
        """Return why nodes are turned away, by name."""
        return {n.name or f"node {k}": n.refusal for k, n in self._nodes.items() if n.refusal}

    def drop(self, site: str, reason: str) -> None:
        """Turn a site away that had said hello, until it is started again."""
        del self.bound[site]
        self._refuse(self.known[site].node, reason)

    def _refuse(self, number: int, reason: str) -> None:
        node = self._nodes[number]
        node.refusal = printable(reason)
        self.known = {site: g for site, g in self.known.items() if g.node != number}
        self.refusals.append(f"{node.name or f'node {number}'}: {node.refusal}")
        del self.refusals[:-MAX_REFUSALS]

    def absent(self) -> list[str]:
        """Return the expected sites whose hello has not been accepted."""
        return sorted(set(self.expected) - set(self.known))

    def versions(self) -> dict[str, str]:
        """Return the sites that run another version of feda3i than the server, and which."""
        found = {site: printable(one.version, 40) for site, one in sorted(self.known.items())}
        return {site: version for site, version in found.items() if version != __version__}

    def wait(self, least: int, patience: float, deadline: float, poll: float) -> None:
        """Wait for all expected sites for a while, and for ``least`` of them until the deadline."""
        begin, spent = time.monotonic(), 0.0
        while spent <= deadline:
            self.refresh()
            spent = time.monotonic() - begin
            if len(self.known) >= least and (spent > patience or not self.absent()):
                return
            time.sleep(poll)
        turned_away = "".join(f"; {name}: {why}" for name, why in self.refused().items())
        raise RunError(
            f"{len(self.known)} sites came within {deadline:.0f} s, at least {least} must; "
            f"missing: {', '.join(self.absent()) or 'unknown'}{turned_away}"
        )

    def _greeting(self, node: int, content: RecordDict) -> Greeting:
        header, body = records.read_answer(content)
        if header.kind != "hello":
            raise WireError("it did not say hello")
        about = {"node": node, "site": header.site, "layout": header.layout}
        greeting = records.checked(Greeting, {**body, **about}, "its hello")
        if math.prod(greeting.shape) * max(greeting.channels, greeting.classes) > MAX_CASE:
            raise WireError(f"its hello: expected cases of at most {MAX_CASE} numbers")
        return greeting

    def _welcome(self, greeting: Greeting, node: _Node) -> None:
        """Take a hello; raise ``WireError`` if the node must be turned away."""
        site, other = greeting.site, self.known.get(greeting.site)
        if node.name and node.name != site:
            raise WireError(f"it calls itself '{site}', its key is registered as '{node.name}'")
        if self.expected and site not in self.expected:
            raise WireError(f"'{site}' is not a site of this consortium")
        bound = self.bound.get(site, greeting.cases)
        if greeting.cases != bound:
            raise WireError(
                f"it reported {greeting.cases} cases, but had registered {bound} for this run. "
                "Give it the same cases again and restart it, or start another run"
            )
        if other is not None and other.node != greeting.node and self._nodes[other.node].start:
            raise WireError(f"another node already answers as '{site}'")
        if self.layout is not None and greeting.layout != self.layout:
            raise WireError(
                f"it builds another network from the recipe than the server (feda3i "
                f"{printable(greeting.version, 40)} there, {__version__} here; {greeting.channels} "
                f"channels, {greeting.classes} classes and size {greeting.shape})"
            )
        node.refusal, self.known[site], self.bound[site] = "", greeting, bound
