"""Start the program as a child, kill it, and plant crash points, all from outside its code."""

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

HANG = 300.0  # seconds after which a child counts as hanging; nothing here takes a tenth of it


class Child(multiprocessing.get_context("fork").Process):
    """The command line in a fork of this process: no import of torch to wait for, as it has it."""

    def __init__(self, arguments: list[str], log: Path, prepare: Callable[[], None] | None = None):
        super().__init__(target=_main, args=(arguments, log, prepare))
        sys.stdout.flush()
        self.start()

    def wait(self) -> int:
        """Return its exit code, or minus the signal that ended it."""
        self.join(HANG)
        if self.exitcode is None:
            self.is_killed()
            raise TimeoutError(f"no end after {HANG:.0f} s")
        return self.exitcode

    def is_killed(self) -> bool:
        """Send SIGKILL; return whether the child was still alive and died of it."""
        self.kill()
        self.join()
        return self.exitcode == -signal.SIGKILL


def _main(arguments: list[str], log: Path, prepare: Callable[[], None] | None) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout = sys.stderr = os.fdopen(handle, "w", buffering=1)
    sys.argv = ["feda3i", *arguments]
    from feda3i import cli

    if prepare is not None:
        prepare()
    cli.main()


def begin_anew() -> None:
    """Become a process of its own, from the first instruction of Python on (a preparation)."""
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv])


class Plant:
    """Count what the program does to files, and kill it at one such step.

    Steps are calls that change the disk (``os.replace``, ``os.mkdir``, ``os.unlink``, ``os.open``),
    before they happen; ``os.fsync``, with half of what it would have put on the disk; and a line of
    the event log, after half of it was written.
    """

    NAMES = ("replace", "mkdir", "unlink", "rmdir", "open", "fsync", "chmod")

    def __init__(self, folder: Path, die_at: int, notes: Path | None = None) -> None:
        self._name, self._die_at, self._notes = folder.name, die_at, notes
        self._count = 0
        self._synced: dict[str, int] = {}

    def install(self) -> None:
        """Wrap the functions; to be called in the child."""
        from feda3i.engine.events import EventLog

        for name in self.NAMES:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        write = EventLog.write

        def half_a_line(log, event, **values):
            before = log._file.tell()
            line = write(log, event, **values)
            log._file.flush()
            self._step(f"event {event}", partial(_halve, log._file.fileno(), before))
            return line

        EventLog.write = half_a_line

    def _wrapped(self, name, function):
        def call(first, *more, **options):
            where = _path_of(first)
            if self._name in where:  # also of the folder that it is made from
                synced = self._synced.get(where, 0)
                half = partial(_halve, first, synced) if name == "fsync" else None
                self._step(f"{name} {where.partition(self._name)[2]}", half)
                if name == "fsync":
                    self._synced[where] = os.fstat(first).st_size
            return function(first, *more, **options)

        return call

    def _step(self, label: str, spoil: Callable[[], None] | None = None) -> None:
        number, self._count = self._count, self._count + 1
        if self._notes is not None:
            with self._notes.open("a") as file:
                file.write(label + "\n")
        if number == self._die_at:
            if spoil is not None:
                spoil()
            os.kill(os.getpid(), signal.SIGKILL)


def _halve(handle: int, start: int) -> None:
    """Lose half of what was written after ``start``; what is on the disk no crash takes back."""
    os.ftruncate(handle, start + (os.fstat(handle).st_size - start) // 2)


def _path_of(thing) -> str:
    if isinstance(thing, int):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{thing}")
        return ""
    return os.path.abspath(os.fsdecode(thing))


def limit_files(size: int) -> Callable[[], None]:
    """Return a preparation after which no file may grow beyond this many bytes."""

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return prepare
