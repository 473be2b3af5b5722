"""The bench's side of a worker process: it sends orders, reads lines and notices the end."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping
from typing import Any

from feda3i.engine.workers import start_process

Told = tuple["Process", dict[str, Any]]


class Process:
    """One worker process; its messages go into a queue shared by all of them."""

    def __init__(self, told: queue.Queue[Told]) -> None:
        self._process = start_process("feda3i.bench.player", text=True, encoding="utf-8")
        self._told = told
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self, order: Mapping[str, Any]) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it died: the listener tells

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put((self, json.loads(line)))
        code = self._process.wait()
        self._told.put((self, {"died": code}))

    def stop(self) -> None:
        """End the process, in whatever round it is."""
        self._process.kill()
        self._process.wait()
