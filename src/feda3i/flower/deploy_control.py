"""Run a consortium from the server itself, with Flower's own command ``flwr``.

``python -m feda3i.flower.deploy_control`` registers the sites' keys; the server's start script
calls it. A site's name is the name of its key file, whatever the site says.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from feda3i import __version__
from feda3i.engine.events import Event, read_events
from feda3i.errors import RunError, printable
from feda3i.files import write_file
from feda3i.flower.deploy_credentials import RENEW, SOON, days_left
from feda3i.flower.guard import CLIENT, SERVER
from feda3i.recipe import Recipe

SUPERLINK = "consortium"  # the server's name in ``flwr/config.toml`` of its folder
PATIENCE = 600.0  # seconds that a server may take to answer after its start
_CHECK = 5.0  # seconds between two questions about a run's state; each starts a process
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


def flwr(server: Path, *arguments: str) -> dict[str, Any]:
    """Return what Flower's command says; raise ``RunError`` if it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        ["flwr", *arguments, "--format", "json"],
        env={**os.environ, **_QUIET, "PATH": path, "FLWR_HOME": str(server.resolve() / "flwr")},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        answer = {"error-message": done.stdout + done.stderr}
    if not answer.get("success"):
        reason, what = str(answer.get("error-message", "")), " ".join(arguments[:2])
        if "certificate has expired" in reason:
            raise RunError(f"the server's certificate has expired; {RENEW}")
        raise RunError(f"'flwr {what}' failed; is the server started? {printable(reason, 500)}")
    return answer


def register_keys(server: Path) -> list[str]:
    """Register the keys in ``server/keys`` that are new; return their sites.

    Which number Flower gave to a site is kept in ``state/nodes``.
    """
    new = []
    for key in sorted((server / "keys").glob("*.pub")):
        note = server / "state" / "nodes" / f"{key.stem}.json"
        line = " ".join(key.read_text("utf-8").split()[:2])
        if note.exists() and json.loads(note.read_text("utf-8"))["key"] == line:
            continue
        answer = flwr(server, "supernode", "register", str(key), SUPERLINK, "--name", key.stem)
        note.parent.mkdir(parents=True, exist_ok=True)
        write_file(note, json.dumps({"key": line, "node": str(answer["node-id"])}).encode())
        new.append(key.stem)
    return new


def write_app(folder: Path, recipe: Recipe, run: str, is_resumed: bool) -> Path:
    """Write the app of a run, which Flower sends to every node: settings only, no code.

    ``feda3i.flower.guard`` refuses anything else.
    """
    about = "Settings of a feda3i run; the code is installed at server and sites"
    project = {"name": "feda3i-run", "version": __version__, "description": about}
    project["license"] = "Apache-2.0"
    text = json.dumps(recipe.to_dict(), sort_keys=True)
    app = {
        "publisher": "feda3i",
        "components": {"serverapp": SERVER, "clientapp": CLIENT},
        "config": {"recipe": text, "run": run, "resume": is_resumed},
    }
    folder.mkdir(parents=True, exist_ok=True)
    settings = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    write_file(folder / "pyproject.toml", settings.encode())
    return folder


def start_run(server: Path, recipe: Recipe, name: str, *, is_resumed: bool = False) -> int:
    """Start a run and return Flower's number of it."""
    app = write_app(server / "apps" / name, recipe, name, is_resumed)
    return int(flwr(server, "run", str(app), SUPERLINK)["run-id"])


def state_of(server: Path, run: int) -> tuple[str, str]:
    """Return state and details of a run; ``finished:completed`` is the only good end."""
    found = flwr(server, "ls", SUPERLINK, "--run-id", str(run))["runs"][0]
    return found["status"], found.get("status-details") or ""


def follow(server: Path, run: int, folder: Path, pause: float = 1.0) -> Iterator[Event]:
    """Yield the finished rounds of a run until its end; raise ``RunError`` at a bad one."""
    shown, checked, state = 0, 0.0, ""
    events = folder / "events.jsonl"
    while not state.startswith("finished"):
        if (folder / "DONE").exists() or time.monotonic() - checked > _CHECK:
            state, details = state_of(server, run)
            checked = time.monotonic()
        rounds = list(read_events(events, "round")) if events.exists() else []
        yield from rounds[shown:]
        shown = len(rounds)
        if not state.startswith("finished"):
            time.sleep(pause)
    if state != "finished:completed":
        raise RunError(f"the run ended as {state}: {details}")


def round_line(event: Event) -> str:
    """Return a finished round as one line."""
    dice = f"  dice {event['dice']:.4f}" if event.get("dice") is not None else ""
    missing = "".join(f"  {site}: {why}" for site, why in event["missing"].items())
    sites = f"sites {event['answered']}/{event['asked']}"
    return f"round  {event['round']}  {sites}  loss {event['loss']:.4f}{dice}{missing}"


def main() -> None:
    """Register the keys at the server in the working directory, as soon as it answers."""
    server, end = Path.cwd(), time.monotonic() + PATIENCE
    left = days_left(server / "server.crt")
    if left < 0:
        sys.exit(f"feda3i: the server's certificate has expired; {RENEW}")
    if left < SOON:
        print(f"feda3i: the server's certificate expires in {left:.0f} days; {RENEW}", flush=True)
    while True:
        try:
            flwr(server, "supernode", "list", SUPERLINK)
            break
        except RunError:
            if time.monotonic() > end:
                raise
            time.sleep(0.3)
    for name in register_keys(server):
        print(f"site {name}: registered", flush=True)


if __name__ == "__main__":
    main()
