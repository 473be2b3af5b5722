"""Messages over a Flower grid: send one, and fetch the reply to it."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from feda3i.errors import WireError, printable, summary

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


class LostError(Exception):
    """A message or a node is gone; the site may be asked again."""


class Mail:
    """The messages between the server and its nodes.

    ``make`` makes a message: Flower's class lets only processes that Flower has started do so, and
    a grid within one process brings its own.
    """

    def __init__(self, grid: Grid, make: Callable[..., Message] = Message) -> None:
        self.grid, self._make = grid, make

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
            reason = printable(summary(error), 300)
            raise WireError(f"its message cannot be read: {reason}") from None
        if reply is None or not reply.has_error():
            return None if reply is None else reply.content
        code = reply.error.code
        kind = LostError if code in _LOST else WireError
        reason = printable(str(reply.error.reason), 300)
        raise kind(f"{_REASONS.get(code, f'error {code}')} ({reason})")
