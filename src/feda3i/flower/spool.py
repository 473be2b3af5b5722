"""Answers that arrived before their turn: a bounded amount in memory, the rest in a file."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from feda3i.core.messages import Params, Reply

IN_MEMORY = 256 * 2**20


class Spool:
    """Keep numbered answers until they are taken; large parameters beyond a bound go to disk."""

    def __init__(self, folder: Path | None = None, in_memory: int = IN_MEMORY) -> None:
        self._folder, self._most = folder, in_memory
        self._answers: dict[int, Any] = {}
        self._files: dict[int, IO[bytes]] = {}
        self._used = 0

    def put(self, number: int, answer: Any) -> None:
        """Take an answer; a pair of a reply and a notice may hold parameters."""
        params = answer[0].params if isinstance(answer, tuple) else None
        if params is None:
            self._answers[number] = answer
            return
        size = params.values.nbytes
        if self._used + size <= self._most:
            self._used += size
            self._answers[number] = answer
            return
        # Without a name and so gone with the process; closed in take.
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        params.values.tofile(file)
        self._files[number] = file
        empty = Params(params.values[:0].copy(), params.counts)
        self._answers[number] = (replace(answer[0], params=empty), answer[1])

    def take(self, number: int) -> Any:
        """Return an answer and forget it."""
        answer = self._answers.pop(number)
        if number not in self._files:
            if isinstance(answer, tuple) and answer[0].params is not None:
                self._used -= answer[0].params.values.nbytes
            return answer
        with self._files.pop(number) as file:
            file.seek(0)
            reply: Reply = answer[0]
            assert reply.params is not None
            values = np.fromfile(file, dtype=reply.params.values.dtype)
        return replace(reply, params=Params(values, reply.params.counts)), answer[1]
