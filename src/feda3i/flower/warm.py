"""A process that has everything loaded and forks for every message (Linux).

Flower starts a new process for every message at a site, and one for every run at the server. Most
of its time goes into loading Python packages. ``start.sh`` therefore starts this process beside the
node: it loads them once, waits behind a socket in a folder that only this user can enter, and forks
when ``feda3i.flower.knock`` brings a command. The child is as good as new: it has its own memory,
goes through the guard like any other, and ends after its message. The parent has one thread, trains
nothing, opens no connection and never touches a GPU, so that a fork of it is safe.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import random
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from feda3i.flower import guard
from feda3i.flower.knock import TAKEN

MAX_REQUEST = 2**16
_LOOK = 1.0
"""Seconds between two looks whether the process that started this one is still there."""
_MODULES = {
    "site": ("feda3i.flower.client_app", "flwr.supernode.cli"),
    "server": ("feda3i.flower.server_app", "flwr.superlink.cli"),
}
_EXTRAS = ("feda3i.models.monai_networks", "feda3i.noise.transform")
"""Not loaded unless asked for: MONAI takes 160 MB and doubles the time to load everything."""
_ROOMS = ("data", "datasets", "engine", "methods", "models", "noise", "simulation", "synthetic")
"""Packages whose modules are imported when a round comes to them; here all at once."""


def main() -> None:
    """Load everything, then wait for commands until the process that started this one ends."""
    role = sys.argv[1]
    parent = os.getppid()
    with listen(Path(os.environ["FEDA3I_DOOR"])) as listener:  # who knocks early waits
        preload(role)
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:  # a lock that another thread holds would stay locked in the child
            sys.exit(f"feda3i: {threads} threads after loading; every message starts cold")
        Warm(role, listener).wait(parent)


def preload(role: str) -> None:
    """Import what a message needs, and freeze it: the collector must not touch shared pages."""
    names = list(_MODULES[role])
    for room in _ROOMS:
        package = importlib.import_module(f"feda3i.{room}")
        inside = pkgutil.iter_modules(package.__path__, f"feda3i.{room}.")
        names += [module.name for module in inside if module.name not in _EXTRAS]
    names += [name for name in os.environ.get("FEDA3I_LOAD", "").split(",") if name]
    for name in names:
        importlib.import_module(name)
    import threadpoolctl  # noqa: F401  imported in one_thread
    import torch
    import torch._dynamo  # a thousand modules that the first optimizer would import

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def listen(door: Path) -> socket.socket:
    """Return a socket at a path that this user alone can reach."""
    here = Path.cwd()
    os.chdir(door.parent)
    try:
        Path(door.name).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = os.umask(0o177)
        try:
            listener.bind(door.name)
        finally:
            os.umask(before)
    finally:
        os.chdir(here)
    listener.listen()
    return listener


@dataclass
class Warm:
    """The parent: one child per command, and who waits for it."""

    role: str
    listener: socket.socket
    children: dict[int, socket.socket] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def wait(self, parent: int) -> None:
        """Serve until the given parent is gone or a signal to end comes."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a child's end wakes the selector
        self.selector.register(self.listener, selectors.EVENT_READ, "door")
        self.selector.register(woken, selectors.EVENT_READ, "wake")
        while os.getppid() == parent:
            for key, _ in self.selector.select(_LOOK):
                if key.data == "door":
                    self.open()
                elif key.data == "wake":
                    os.read(woken, 4096)
                else:
                    self.abandon(key.data)
            self.reap()

    def open(self) -> None:
        """Take one command and fork for it."""
        line, _ = self.listener.accept()
        try:
            line.settimeout(5.0)
            request, streams, _, _ = socket.recv_fds(line, MAX_REQUEST, 2)
            arguments = read_request(request, self.role)
            if not is_own(line) or len(streams) != 2:
                raise ValueError("a command of another user, or without its streams")
        except (OSError, ValueError) as error:
            print(f"feda3i: the warm process refused a command: {error}", file=sys.stderr)
            line.close()
            return
        child = os.fork()
        if child == 0:
            self.leave(line)
            become(self.role, arguments, streams)
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(OSError):  # a caller that has gone is noticed below
            line.send(TAKEN)
        self.children[child] = line
        self.selector.register(line, selectors.EVENT_READ, child)

    def leave(self, line: socket.socket) -> None:
        """Close in the child what is the parent's."""
        signal.set_wakeup_fd(-1)
        self.selector.close()
        self.listener.close()
        for other in (*self.children.values(), line):
            other.close()

    def abandon(self, child: int) -> None:
        """Stop a child whose caller has gone; Flower would have stopped the caller itself."""
        self.selector.unregister(self.children[child])
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    def reap(self) -> None:
        """Tell the callers of children that have ended how they ended."""
        while self.children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            line = self.children.pop(child)
            with contextlib.suppress(KeyError):
                self.selector.unregister(line)
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError):
                line.send(str(code if code >= 0 else 128 - code).encode())
            line.close()


def become(role: str, arguments: Sequence[str], streams: Sequence[int]) -> None:
    """Carry out a command in a forked child, through the guard, and end the process."""
    code = 1
    try:
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for stream, target in zip(streams, (1, 2), strict=True):
            os.dup2(stream, target)
            os.close(stream)
        random.seed()  # jitter of retries: children must not all draw the same
        sys.argv = [f"feda3i-{role}", role, *arguments]
        guard.main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:  # the child must end here, never go on in the loop
        sys.excepthook(*sys.exc_info())
    finally:
        for stream_of in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream_of.flush()
        os._exit(code)


def read_request(data: bytes, role: str) -> list[str]:
    """Return the arguments in a request; raise ``ValueError`` unless it is for this role."""
    request = json.loads(data)
    arguments = request.get("arguments") if isinstance(request, dict) else None
    if not isinstance(arguments, list) or not all(isinstance(a, str) for a in arguments):
        raise ValueError("not a list of arguments")
    if request.get("role") != role:
        raise ValueError(f"a command for a {request.get('role')!r}")
    return arguments


def is_own(line: socket.socket) -> bool:
    """Return whether the other end of a socket belongs to the user of this process."""
    form = struct.Struct("3i")
    found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    return bool(form.unpack(found)[1] == os.getuid())


if __name__ == "__main__":
    main()
