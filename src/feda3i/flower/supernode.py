"""Start Flower's SuperNode with shorter waits between its looks for messages.

Flower's node sleeps three seconds when there is no message, and half a second between two looks for
the app's answer. Here an idle node waits a tenth of the time that it has already waited, from a
quarter of a second to Flower's three: soon after a round it looks often, later seldom.
"""

from __future__ import annotations

import importlib
import time

LEAST, SHARE = 0.25, 0.1
ANSWER = 0.1
"""Seconds between two looks for the app's answer, within this process."""


class Pauses:
    """What the node's loop takes for the module ``time``."""

    def __init__(self) -> None:
        self.idle = 0.0

    def sleep(self, seconds: float) -> None:
        """Sleep as long as is good here, at most as long as Flower wants to."""
        time.sleep(self.pause(seconds))

    def pause(self, seconds: float) -> float:
        """Return how long to wait instead of ``seconds``; three or more mean that it is idle."""
        if seconds < 3:
            self.idle = 0.0
            return min(seconds, ANSWER)
        wait = min(seconds, max(LEAST, SHARE * self.idle))
        self.idle += wait
        return wait


def main() -> None:
    """Run ``flower-supernode`` with its own arguments."""
    # The module's only use of time is sleep (flwr is pinned to a minor version, a test looks).
    vars(importlib.import_module("flwr.supernode.start_client_internal"))["time"] = Pauses()
    from flwr.supernode.cli import flower_supernode

    flower_supernode()


if __name__ == "__main__":
    main()
