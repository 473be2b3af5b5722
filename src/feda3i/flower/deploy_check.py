"""What a site verifies before round 1: versions, key, guard, data, state folder, connection."""

import importlib.metadata
import os
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from feda3i import __version__
from feda3i.errors import FedA3IError, RunError
from feda3i.flower.deploy_credentials import RENEW
from feda3i.flower.deploy_folders import FILE, read_settings
from feda3i.flower.guard import COMMANDS
from feda3i.flower.node import NodeSettings

MAX_SKEW = 120.0  # seconds that the site's clock may differ; Flower refuses signatures at about 300
LOOPBACK = ("127.0.0.1:", "localhost:")


def check_site(folder: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield what was looked at in a site's folder, whether it is fine, and what was found."""
    for step in (_versions, _settings, _key, _guard, _data, _state, _connection, _exposure):
        name = step.__name__.strip("_")
        try:
            yield name, True, step(folder)
        except FedA3IError as error:
            yield name, False, str(error)
        except OSError as error:
            yield name, False, f"{error.strerror or error}: {error.filename or ''}"


def _versions(folder: Path) -> str:
    found = importlib.metadata.version("flwr")
    if tuple(int(part) for part in found.split(".")[:2]) < (1, 41):
        raise RunError(f"expected flwr 1.41 or newer, found {found}; pip install 'feda3i[flower]'")
    wanted = _agreed(folder, "version")
    if wanted != __version__:
        raise RunError(f"the consortium uses feda3i {wanted}, this is {__version__}; install that")
    return f"feda3i {__version__}, flwr {found}"


def _site(folder: Path) -> NodeSettings:
    return NodeSettings.of(read_settings(folder / "site.toml", "the operator has sent one"))


def _agreed(folder: Path, name: str) -> str:
    """Return what all sites of the consortium agree on: address or version."""
    value = read_settings(folder / FILE, "ask the operator for it").get(name)
    if not isinstance(value, str):
        raise RunError(f"{FILE} does not say the {name}; ask the operator for it")
    return value


def _settings(folder: Path) -> str:
    return f"site {_site(folder).site}"


def _key(folder: Path) -> str:
    path = folder / "node.key"
    if (mode := path.stat().st_mode & 0o777) & 0o077:
        raise RunError(f"others may read node.key (mode {mode:o}); chmod 600 {path}")
    return "private"


def _guard(folder: Path) -> str:
    lacking = [c for c in COMMANDS if not os.access(folder / "bin" / c, os.X_OK)]
    if lacking:
        raise RunError(f"bin/{lacking[0]} is missing: this site would run any app it is sent")
    # A command that a site never needs: the guard must be there to say so.
    command = [str(folder / "bin" / "flwr-agentapp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "does not run" not in done.stderr:
        raise RunError("python3 on PATH has no feda3i; activate the environment that has it")
    return "settings-only apps"


def _data(folder: Path) -> str:
    from feda3i.data.folder import load_folder

    if (data_dir := _site(folder).data_dir) is None:
        raise RunError("site.toml names no data-dir")
    # Any size will do here: the recipe is not known yet, but all files can be read.
    cases = load_folder(data_dir, size=64, cache=False)
    empty = sum(not mask.any() for mask in cases.masks)
    note = f", {empty} with an empty mask" if empty else ""
    return f"{len(cases)} cases of {cases.channels} channels{note}"


def _state(folder: Path) -> str:
    state, data = _site(folder).state_dir, _site(folder).data_dir
    state.mkdir(parents=True, exist_ok=True)
    if not os.access(state, os.W_OK):
        raise RunError(f"state-dir '{state}' cannot be written to")
    if data and state.resolve().is_relative_to(data.resolve()):
        raise RunError("state-dir is inside data-dir; choose another folder")
    return "can be written to"


def _ask(folder: Path, path: str, method: str = "GET") -> httpx.Response:
    address = _agreed(folder, "address")
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    try:
        return httpx.request(method, f"https://{address}{path}", verify=context, timeout=10)
    except httpx.TransportError as error:
        if "certificate has expired" in str(error):
            raise RunError(f"the server's certificate has expired; {RENEW}") from None
        raise RunError(f"no connection to {address}: {error}") from None


def _connection(folder: Path) -> str:
    answer, address = _ask(folder, "/health"), _agreed(folder, "address")
    if answer.status_code != 200:
        raise RunError(f"{address} answers {answer.status_code} instead of 200 to /health")
    if "Date" not in answer.headers:
        return f"{address} over TLS; it does not say its time"
    there = parsedate_to_datetime(answer.headers["Date"])
    skew = (datetime.now(UTC) - there).total_seconds()
    if abs(skew) > MAX_SKEW:
        raise RunError(f"this clock is {skew:+.0f} s from the server's; switch on NTP")
    return f"{address} over TLS; this clock is {skew:+.0f} s from its"


def _exposure(folder: Path) -> str:
    """Look whether the control interface, which has no login, can be reached from here."""
    status = _ask(folder, "/v1/control/list-runs", "POST").status_code
    if status in (403, 404):
        return "the control interface is closed"
    if _agreed(folder, "address").startswith(LOOPBACK):
        return "loopback, for trials"
    raise RunError(
        f"the server's control interface answers from here ({status}); tell the operator that "
        f"the reverse proxy (nginx.conf) must be in front"
    )
