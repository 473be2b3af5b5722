"""Who is there: nodes are greeted when they connect, and what they claim is checked."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from flwr.app import Message
from pydantic import Field

from feda3i import __version__
from feda3i.core.wire import MAX_CASES
from feda3i.errors import RunError, WireError, printable
from feda3i.flower import records
from feda3i.flower.mail import LOST, Mail, reason_of
from feda3i.flower.node import SITE_NAME
from feda3i.flower.records import PROTOCOL, Header

MAX_CASE = 2**31
"""Numbers in all that one case can have."""
MAX_REFUSALS = 100
"""Refusals kept for the next event: a node that is refused again and again fills no log."""
HELLO_TTL = 600.0
"""Seconds that a node may take to say hello; reading its cases for the first time takes a while."""


_Kinds = Annotated[int, Field(ge=1, le=1024)]
_Side = Annotated[int, Field(ge=1, le=2**16)]


class _Hello(records.Strict):
    cases: Annotated[int, Field(ge=1, le=MAX_CASES)]
    channels: _Kinds
    classes: _Kinds
    shape: Annotated[list[_Side], Field(min_length=2, max_length=3)]
    version: str


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


@dataclass
class _Node:
    """What is known of a node; ``start`` is ``None`` while it is not connected."""

    name: str = ""  # as its key is registered
    start: str | None = None
    is_greeted: bool = False  # since it was started
    hello: str = ""  # the message that it has not answered yet
    refusal: str = ""  # why it is turned away


class Roster:
    """The sites of a consortium as they come, go and return.

    ``expected`` names the sites that belong to it, if that is known; others are turned away.
    ``layout`` is the digest of the network that sites must build, ``None`` until the server knows.
    """

    def __init__(self, mail: Mail, expected: Sequence[str] = ()) -> None:
        self.mail, self.expected = mail, tuple(expected)
        self.layout: str | None = None
        self.known: dict[str, Greeting] = {}
        self.remembered: dict[str, int] = {}
        self.refused: dict[str, str] = {}
        self.refusals: list[str] = []
        self._nodes: defaultdict[int, _Node] = defaultdict(_Node)
        self._dropped: dict[str, str] = {}

    def refresh(self) -> None:
        """Look who is connected, greet who is new or restarted, read the hellos that came."""
        here = {node.node_id: node for node in self.mail.grid.get_nodes()}
        for number in here:
            self._nodes[number].name = here[number].name
        for number, node in self._nodes.items():
            start = here[number].last_activated_at if number in here else None
            if node.start != start:
                node.start, node.is_greeted = start, False
        self._read_hellos()  # also of nodes that have been started again since
        for number, node in self._nodes.items():
            if node.start is not None and not node.is_greeted:
                # What it said before it was started again does not count.
                content = records.write(Header("hello"), {})
                node.hello = self.mail.send(content, number, "query.hello", HELLO_TTL) or ""
                node.is_greeted = bool(node.hello)  # otherwise it is tried again at the next look
        self._read_hellos()

    def _read_hellos(self) -> None:
        for number, node in self._nodes.items():
            if not node.hello:
                continue
            try:
                reply = self.mail.fetch(node.hello)
                if reply is not None:
                    node.hello = ""
                    self._read(number, node, reply)
            except WireError as error:
                node.hello = ""
                self._refuse(number, node.name or f"node {number}", str(error))

    def node_of(self, site: str) -> tuple[int, str] | None:
        """Return a site's node and when it was started, or ``None`` if it cannot be asked now."""
        if site not in self.known:
            return None
        number = self.known[site].node
        node = self._nodes[number]
        if node.start is None or node.refusal or node.hello or not node.is_greeted:
            return None  # it is away, or was restarted and has not said hello again
        return number, node.start

    def why(self, site: str) -> str:
        """Return why a site cannot be asked now."""
        greeting = self.known.get(site)
        if greeting is None:
            return self._dropped.get(site, "it was not connected")
        return self._nodes[greeting.node].refusal or "it was not connected"

    def cases(self) -> dict[str, int]:
        """Return the number of cases of every site that was ever there, by name.

        Sites that took part before a resume are remembered, whether they have come back or not.
        """
        cases = {**self.remembered, **{site: g.cases for site, g in self.known.items()}}
        return dict(sorted(cases.items()))

    def bind(self, cases: Mapping[str, int]) -> None:
        """Hold sites to what they said before a resume; one that says otherwise now is shut out."""
        self.remembered = dict(cases)
        for site, greeting in list(self.known.items()):
            try:
                self._check_bound(site, greeting.cases)
            except WireError as error:
                self.drop(site, str(error))

    def drop(self, site: str, reason: str) -> None:
        """Turn a site away that had said hello, until it is started again."""
        greeting = self.known.pop(site)
        self._dropped[site] = reason
        self._refuse(greeting.node, site, reason)

    def _refuse(self, number: int, label: str, reason: str) -> None:
        self.refused[label] = self._nodes[number].refusal = printable(reason)
        self.refusals.append(f"{label}: {self.refused[label]}")
        del self.refusals[:-MAX_REFUSALS]

    def _check_bound(self, site: str, cases: int) -> None:
        """Raise ``WireError`` if a site had another number of cases at its first hello.

        The number decides how much a site counts, so it cannot be changed on the way.
        """
        known = self.known.get(site)
        bound = self.remembered.get(site, known.cases if known else cases)
        if cases != bound:
            raise WireError(
                f"it reported {cases} cases, but had registered {bound} for this run. "
                "Give it the same cases again and restart it, or start another run"
            )

    def absent(self) -> list[str]:
        """Return the expected sites that have not said hello since the run began."""
        return sorted(set(self.expected) - set(self.known))

    def versions(self) -> dict[str, str]:
        """Return the sites that run another version of feda3i than the server, and which."""
        return {
            site: greeting.version
            for site, greeting in sorted(self.known.items())
            if greeting.version != __version__
        }

    def wait(self, least: int, patience: float, deadline: float, poll: float = 0.5) -> None:
        """Wait for all expected sites for a while, and for ``least`` of them until the deadline."""
        begin = time.monotonic()
        while True:
            self.refresh()
            spent = time.monotonic() - begin
            is_enough = len(set(self.known)) >= least
            if is_enough and (spent > patience or not self.absent()):
                return
            if spent > deadline:
                break
            time.sleep(poll)
        turned_away = "".join(f"; {name}: {why}" for name, why in self.refused.items())
        raise RunError(
            f"{len(self.known)} sites came within {deadline:.0f} s, at least {least} must; "
            f"missing: {', '.join(self.absent()) or 'unknown'}{turned_away}"
        )

    def _read(self, number: int, node: _Node, reply: Message) -> None:
        """Take a reply to a hello; raise ``WireError`` if the node must be turned away."""
        if reply.has_error() and reply.error.code in LOST:
            node.is_greeted = False  # it is greeted again if it is there
            return
        if reply.has_error():
            raise WireError(reason_of(reply.error))
        greeting = self._greeting(number, reply)
        self._check(greeting, node.name)
        node.refusal = ""
        for name in (node.name or f"node {number}", greeting.site):
            self.refused.pop(name, None)
        self._dropped.pop(greeting.site, None)
        self.known[greeting.site] = greeting

    def _greeting(self, node: int, reply: Message) -> Greeting:
        header, body = records.read_header(reply.content)
        if header.protocol != PROTOCOL:
            raise WireError(
                f"it speaks protocol {header.protocol}, this server {PROTOCOL}; install feda3i "
                f"{__version__} at the site"
            )
        if header.kind == "refusal":
            raise WireError(printable(body.get("reason", "it refused"), 500))
        if header.kind != "hello":
            raise WireError("it did not say hello")
        hello = records.checked(_Hello, body, "its hello")
        if math.prod(hello.shape) * max(hello.channels, hello.classes) > MAX_CASE:
            raise WireError(f"its hello: expected cases of at most {MAX_CASE} numbers")
        sizes = (hello.channels, hello.classes, tuple(hello.shape))
        version = printable(hello.version, 40)
        return Greeting(node, header.site, hello.cases, header.layout, *sizes, version)

    def _check(self, greeting: Greeting, registered: str) -> None:
        site = greeting.site
        if not SITE_NAME.fullmatch(site):
            raise WireError("its name is not one of letters, digits, - and _")
        if registered and registered != site:
            raise WireError(f"it calls itself '{site}', its key is registered as '{registered}'")
        if self.expected and site not in self.expected:
            raise WireError(f"'{site}' is not a site of this consortium")
        self._check_bound(site, greeting.cases)
        other = self.known.get(site)
        if other is not None and other.node != greeting.node and self._nodes[other.node].start:
            raise WireError(f"another node already answers as '{site}'")
        if self.layout is not None and greeting.layout != self.layout:
            raise WireError(
                f"it builds another network from the recipe than the server (feda3i "
                f"{greeting.version} there, {__version__} here; cases of {greeting.channels} "
                f"channels, {greeting.classes} classes and size {greeting.shape})"
            )
