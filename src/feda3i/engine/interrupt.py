"""Ctrl-C, and the SIGTERM of a batch system, that do not get lost."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupt:
    """Remembers a Ctrl-C: code on the way up (torch) may swallow it or make another error of it.

    ``check`` raises it again where nobody catches it, and any other error that leaves the ``with``
    block after it becomes one. SIGTERM, which Slurm sends before it kills, counts as Ctrl-C. A host
    program that has set its own reactions (Flower, a notebook) keeps them.
    """

    def __init__(self) -> None:
        self._is_noted = False
        self._before: dict[signal.Signals, Any] = {}

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` if Ctrl-C was pressed and we are still here."""
        if self._is_noted:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
        if self._is_noted and error is not None and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._is_noted = True
        raise KeyboardInterrupt
