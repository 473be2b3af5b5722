"""Messages over a Flower grid: send one, and fetch the reply to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from feda3i.errors import WireError, printable, summary

LOST = (3, 4, 5)
"""Flower's error codes for a message or a node that is gone; the site may be asked again."""
_REASONS = {
    1: "its app could not be loaded",
    2: "its app failed",
    3: "the order is gone",
    4: "the reply is gone",
    5: "the node went offline",
    7: "it refused the app",
    8: "its app crashed",
}


class Mail:
    """The messages between the server and its nodes.

    ``make`` makes a message: Flower's class lets only processes that Flower has started do so, and
    a grid within one process brings its own.
    """

    def __init__(self, grid: Grid, make: Callable[..., Message] = Message) -> None:
        self.grid, self._make = grid, make

    def send(self, content: RecordDict, node: int, kind: str, ttl: float) -> str | None:
        """Send a message; return its identifier, or ``None`` if it could not be sent."""
        message = self._make(content, node, kind, ttl=ttl)
        return next(iter(self.grid.push_messages([message])), None)

    def fetch(self, identifier: str) -> Message | None:
        """Return the reply to a message, if it has come; raise ``WireError`` if it is unreadable.

        What goes wrong between this process and the SuperLink is not the node's fault and is passed
        on as it is.
        """
        try:
            return next(iter(self.grid.pull_messages([identifier])), None)
        except (httpx.HTTPError, OSError, RuntimeError, MemoryError):
            raise
        except Exception as error:  # whatever Flower's reading of a forged message ends in
            reason = printable(summary(error), 300)
            raise WireError(f"its message cannot be read: {reason}") from None


def reason_of(error: Any) -> str:
    """Return Flower's error in place of a reply as a reason."""
    code = error.code
    return f"{_REASONS.get(code, f'error {code}')} ({printable(str(error.reason), 300)})"
