"""Stand between Flower and this machine: run settings-only apps of this package, nothing else.

A SuperNode runs whatever app its server sends, and a server whatever app it is given; Flower's own
check (trusted entities) needs a licensed SuperLink. The start scripts therefore put a folder first
on ``PATH`` in which Flower's commands for running apps lead here, and the one that is needed is let
through with a check before the app is unpacked. This is the only place that uses inner names of
Flower: where they have changed, nothing runs (``runner_of``), and a test says so.
"""

import importlib
import io
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from feda3i.errors import WireError

SERVER = "feda3i.flower.server_app:app"
CLIENT = "feda3i.flower.client_app:app"
_APPS = ("agentapp", "clientapp", "connector", "model", "serverapp", "simulation")
COMMANDS = tuple(f"flwr-{app}" for app in _APPS)
ROLES = {
    # role: the command it needs, where flwr unpacks an app for it, the component it may run
    "site": ("flwr-clientapp", "flwr.supernode.runtime.run_clientapp", "clientapp", CLIENT),
    "server": ("flwr-serverapp", "flwr.superlink.runtime.run_serverapp", "serverapp", SERVER),
}
MAX_APP = 2**20
_FILES = {"pyproject.toml", ".info/CONTENT"}


def check_app(data: bytes, kind: str, component: str) -> None:
    """Raise ``WireError`` unless an app holds settings only and names this package's component."""
    if len(data) > MAX_APP:
        raise WireError(f"expected an app of at most {MAX_APP} bytes, found {len(data)}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            if sorted(names) != sorted(_FILES):
                extra = sorted(set(names) - _FILES)[:3]
                raise WireError(f"expected an app of settings only, found {extra or names}")
            if any(info.file_size > MAX_APP for info in archive.infolist()):
                raise WireError(f"expected files of at most {MAX_APP} bytes in an app")
            settings = tomllib.loads(archive.read("pyproject.toml").decode())
        found = settings["tool"]["flwr"]["app"]["components"][kind]
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise WireError(f"the app cannot be read: {type(error).__name__}") from None
    if found != component:
        raise WireError(f"expected the component {component}, found '{str(found)[:80]}'")


def write_commands(folder: Path, role: str) -> None:
    """Write the commands that lead Flower here into a folder for the front of ``PATH``."""
    from feda3i.files import write_file

    folder.mkdir(parents=True, exist_ok=True)
    for command in COMMANDS:
        call = f'exec python3 -P -m feda3i.flower.guard {role} {command} "$@"'
        write_file(folder / command, f"#!/bin/sh\n{call}\n".encode())
        (folder / command).chmod(0o755)


def runner_of(role: str) -> Any:
    """Return the module in which Flower unpacks an app; raise ``WireError`` if it has moved."""
    module = ROLES[role][1]
    try:
        runner: Any = importlib.import_module(module)
        unpack = importlib.import_module("flwr.cli.install").install_from_fab
        is_known = runner.install_from_fab is unpack
    except (ImportError, AttributeError):
        is_known = False
    if not is_known:
        raise WireError(
            f"this version of flwr does not unpack apps in {module} as feda3i knows it, so that "
            f"apps cannot be checked; install another version of flwr or of feda3i"
        )
    return runner


def main() -> None:
    """Run Flower's process for one app, with the check in front."""
    role, command = sys.argv[1:3]
    del sys.argv[1:3]
    wanted, _, kind, component = ROLES[role]
    if command != wanted:
        print(f"feda3i: this {role} does not run '{command}'", file=sys.stderr)
        sys.exit(1)
    runner = runner_of(role)
    install = runner.install_from_fab

    def checked(fab: bytes, *args: Any, **options: Any) -> Any:
        check_app(fab, kind, component)
        return install(fab, *args, **options)

    runner.install_from_fab = checked
    package = "flwr.supernode.cli" if role == "site" else "flwr.superlink.cli"
    getattr(importlib.import_module(package), command.replace("-", "_"))()


if __name__ == "__main__":
    main()
