"""What a site has answered so far, on its own disk: a repeated or skipped round is noticed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from feda3i.basics.files import write_file
from feda3i.core.messages import TASKS, Order
from feda3i.errors import RunError


@dataclass(frozen=True)
class Answered:
    """The last order that a site answered in one run, in ``journal.json`` of its run folder."""

    folder: Path

    def last(self) -> tuple[int, str] | None:
        """Return round and task of the last answer, or ``None`` before the first."""
        try:
            entry = json.loads((self.folder / "journal.json").read_text())
            return int(entry["round"]), str(entry["task"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"the site's journal cannot be read: {type(error).__name__}") from None

    def notice(self, order: Order) -> str:
        """Return what is unusual about an order, or an empty string.

        A repeated order finds the memory it found the first time, so its answer is the same; a
        skipped round means that the site was away. Both are normal after a restart, but are told.
        """
        last = self.last()
        if last is None:
            return f"first order in round {order.round}" if order.round > 1 else ""
        tasks: tuple[str, ...] = TASKS
        place, before = (order.round, tasks.index(order.task)), (last[0], tasks.index(last[1]))
        if place <= before:
            return f"repeated: {order.task} of round {order.round} after {last[1]} of {last[0]}"
        if order.round > last[0] + 1:
            return f"skipped: round {order.round} after round {last[0]}"
        return ""

    def write(self, order: Order) -> None:
        """Note that an order was answered."""
        self.folder.mkdir(parents=True, exist_ok=True)
        entry = json.dumps({"round": order.round, "task": order.task})
        write_file(self.folder / "journal.json", entry.encode())
