"""Start the program as a child, kill it, and plant crash points, all from outside its code."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HANG = 300.0  # seconds after which a child counts as hanging; nothing here takes a tenth of it


class Child:
    """The command line in a fork of this process: no import of torch to wait for, as it has it."""

    def __init__(self, arguments: list[str], log: Path, prepare: Callable[[], None] | None = None):
        sys.stdout.flush()
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(_main(arguments, log, prepare))

    def is_over(self) -> bool:
        """Return whether it has ended; ``code`` is then its exit code or minus a signal."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self) -> int:
        end = time.monotonic() + HANG
        while not self.is_over():
            if time.monotonic() > end:
                self.kill()
                raise TimeoutError(f"no end after {HANG:.0f} s")
            time.sleep(0.005)
        assert self.code is not None
        return self.code

    def kill(self) -> bool:
        """Send SIGKILL; return whether the child was still alive and died of it."""
        if not self.is_over():
            os.kill(self.pid, signal.SIGKILL)
            while not self.is_over():
                time.sleep(0.001)
        return self.code == -signal.SIGKILL


class Process(Child):
    """The command line as a process of its own, from the first instruction of Python on."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        with log.open("ab") as file:
            command = [sys.executable, "-m", "feda3i", *arguments]
            self._process = subprocess.Popen(command, stdout=file, stderr=file)
        self.code, self.pid = None, self._process.pid

    def is_over(self) -> bool:
        self.code = self._process.poll()
        return self.code is not None


def _main(arguments: list[str], log: Path, prepare: Callable[[], None] | None) -> int:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.argv = ["feda3i", *arguments]
    code = 0
    try:
        from feda3i import cli

        if prepare is not None:
            prepare()
        cli.main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException as error:  # what reaches this place would have been a traceback
        print(f"UNCAUGHT {type(error).__name__}: {error}")
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    return code


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
            self._step(f"event {event}", lambda: _halve_line(log._file, before))
            return line

        EventLog.write = half_a_line

    def _wrapped(self, name, function):
        def call(first, *more, **options):
            where = _path_of(first)
            if self._name in where:  # also of the folder that it is made from
                synced = self._synced.get(where, 0)
                half = (lambda: _halve(first, synced)) if name == "fsync" else None
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


def _halve_line(file, start: int) -> None:
    file.flush()
    _halve(file.fileno(), start)


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
