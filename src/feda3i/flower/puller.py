"""Fetch replies one at a time, without waiting for a node that has stopped in the middle of one.

A node announces a reply and then uploads it. Flower's grid waits for the rest, for minutes if the
node has died between; the server has other sites to listen to. A fetch that takes long therefore
goes on in a thread of its own, and the next look asks whether it has come to an end.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

from flwr.app import Message
from flwr.serverapp import Grid

from feda3i.errors import WireError, printable, summary

PATIENCE = 1.0
"""Seconds that the server itself waits for a fetch; one at a time is in memory as a rule."""
MOST = 8
"""Fetches that go on at the same time; each holds one reply in memory."""


class Puller:
    """Fetch replies from a grid.

    A fetch that takes longer than ``patience`` seconds goes on in the background; ``None``: each is
    waited for to its end.
    """

    def __init__(self, grid: Grid, patience: float | None = None) -> None:
        self.grid, self.patience = grid, patience
        self._under_way: dict[str, Future[list[Message]]] = {}

    def pull(self, identifier: str) -> list[Message]:
        """Return the reply to a message, if it has come; raise ``WireError`` if it is unreadable.

        What goes wrong between this process and the SuperLink is not the node's fault and is passed
        on as it is.
        """
        try:
            if self.patience is None:
                return list(self.grid.pull_messages([identifier]))
            return self._in_background(identifier, self.patience)
        except Exception as error:
            raise _named(error) from None

    def _in_background(self, identifier: str, patience: float) -> list[Message]:
        fetch = self._under_way.get(identifier)
        if fetch is None:
            if len(self._under_way) >= MOST:
                self._forget()
                return []
            fetch = self._under_way[identifier] = Future()
            # A thread of its own that nobody waits for: a pool's would keep this process alive.
            threading.Thread(target=self._fetch, args=(identifier, fetch), daemon=True).start()
            wait([fetch], patience)
        return self._under_way.pop(identifier).result() if fetch.done() else []

    def _forget(self) -> None:
        """Drop what has come and nobody asks for any more, because its round is over."""
        for identifier, fetch in list(self._under_way.items()):
            if fetch.done():
                del self._under_way[identifier]

    def _fetch(self, identifier: str, fetch: Future[list[Message]]) -> None:
        try:
            fetch.set_result(list(self.grid.pull_messages([identifier])))
        except Exception as error:
            fetch.set_exception(error)


def _named(error: Exception) -> Exception:
    """Return an error of the connection as it is, any other as that of an unreadable message."""
    import httpx

    if isinstance(error, httpx.HTTPError | OSError | RuntimeError | MemoryError):
        return error
    return WireError(f"its message cannot be read: {printable(summary(error), 300)}")
