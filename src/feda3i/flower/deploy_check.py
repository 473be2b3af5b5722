"""What a site verifies before round 1: versions, key, data, state folder, clock, connection."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from feda3i import __version__
from feda3i.errors import FedA3IError
from feda3i.flower.deploy_credentials import RENEW, public_line
from feda3i.flower.deploy_folders import FILE, read_settings
from feda3i.flower.guard import COMMANDS
from feda3i.flower.node import NodeSettings

MAX_SKEW = 120.0
"""Seconds that the site's clock may differ; Flower refuses signatures at about 300."""
SPACE = 2 * 2**30
_TIMEOUT = 10.0


@dataclass(frozen=True)
class Finding:
    """One line of the check: what was looked at, whether it is fine, and what was found."""

    name: str
    is_fine: bool
    text: str


class _Wrong(Exception):
    """Something that a site must put right before it can take part."""


def check_site(folder: Path) -> Iterator[Finding]:
    """Yield the findings about a site's folder, as the site has changed it, one by one."""
    steps: dict[str, Callable[[Path], str]] = {
        "versions": _versions,
        "settings": lambda f: f"site {_settings(f).site}",
        "key": _key,
        "guard": _guard,
        "data": _data,
        "state": _state,
        "connection": _connection,
        "exposure": _exposure,
    }
    for name, step in steps.items():
        try:
            yield Finding(name, True, step(folder))
        except (_Wrong, FedA3IError) as error:
            yield Finding(name, False, str(error))
        except OSError as error:
            yield Finding(name, False, f"{error.strerror or error}: {error.filename or ''}")


def _versions(folder: Path) -> str:
    found = importlib.metadata.version("flwr")
    if tuple(int(part) for part in found.split(".")[:2]) < (1, 41):
        raise _Wrong(f"expected flwr 1.41 or newer, found {found}; pip install 'feda3i[flower]'")
    wanted = _agreed(folder, "version")
    if wanted != __version__:
        raise _Wrong(f"the consortium uses feda3i {wanted}, this is {__version__}; install that")
    return f"feda3i {__version__}, flwr {found}"


def _settings(folder: Path) -> NodeSettings:
    return NodeSettings.of(read_settings(folder / "site.toml", "the operator has sent one"))


def _agreed(folder: Path, name: str) -> str:
    """Return what all sites of the consortium agree on: address or version."""
    values = read_settings(folder / FILE, "ask the operator for it")
    if not isinstance(values.get(name), str):
        raise _Wrong(f"{FILE} does not say the {name}; ask the operator for it")
    return str(values[name])


def _key(folder: Path) -> str:
    path = folder / "node.key"
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise _Wrong(f"others may read node.key (mode {mode:o}); chmod 600 {path}")
    try:
        line = public_line(path)
    except ValueError:
        raise _Wrong("node.key is not an ECDSA key; ssh-keygen -t ecdsa -b 384 -N ''") from None
    public = folder / "node.pub"
    if public.exists() and public.read_text("utf-8").split()[:2] != line.split()[:2]:
        raise _Wrong(
            "node.pub is not the public half of node.key; did the operator get the new one?"
        )
    return "private, ECDSA"


def _guard(folder: Path) -> str:
    lacking = [c for c in COMMANDS if not os.access(folder / "bin" / c, os.X_OK)]
    if lacking:
        raise _Wrong(f"bin/{lacking[0]} is missing: this site would run any app it is sent")
    # A command that a site never needs: the guard must be there to say so.
    done = subprocess.run(
        [str(folder / "bin" / "flwr-agentapp")], capture_output=True, text=True, check=False
    )
    if "does not run" not in done.stderr:
        raise _Wrong(
            "python3 on PATH has no feda3i, so every order would fail; activate the "
            "environment in which feda3i is installed"
        )
    return "settings-only apps"


def _data(folder: Path) -> str:
    from feda3i.data.folder import load_folder

    settings = _settings(folder)
    if settings.data_dir is None:
        raise _Wrong("site.toml names no data-dir")
    # Any size will do here: the recipe is not known yet, but all files can be read.
    cases = load_folder(settings.data_dir, size=64, cache=False)
    empty = sum(1 for mask in cases.masks if not mask.any())
    note = f", {empty} with an empty mask" if empty else ""
    return f"{len(cases)} cases of {cases.channels} channels{note}"


def _state(folder: Path) -> str:
    settings = _settings(folder)
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    if not os.access(settings.state_dir, os.W_OK):
        raise _Wrong(f"state-dir '{settings.state_dir}' cannot be written to")
    data = settings.data_dir and settings.data_dir.resolve()
    if data and settings.state_dir.resolve().is_relative_to(data):
        raise _Wrong("state-dir is inside data-dir; choose another folder")
    free = shutil.disk_usage(settings.state_dir).free
    if free < SPACE:
        raise _Wrong(
            f"{free / 2**30:.1f} GB free in state-dir, at least {SPACE / 2**30:.0f} needed"
        )
    return f"{free / 2**30:.0f} GB free"


def _ask(folder: Path, path: str, method: str = "GET") -> tuple[int, Any]:
    """Ask the server over TLS and return status code and headers."""
    address = _agreed(folder, "address")
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    request = urllib.request.Request(f"https://{address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as answer:
            return int(answer.status), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers
    except urllib.error.URLError as error:
        if "certificate has expired" in str(error.reason):
            raise _Wrong(f"the server's certificate has expired; {RENEW}") from None
        raise _Wrong(f"no connection to {address}: {error.reason}") from None


def _connection(folder: Path) -> str:
    status, headers = _ask(folder, "/health")
    address = _agreed(folder, "address")
    if status != 200:
        raise _Wrong(f"{address} answers {status} instead of 200 to /health")
    if "Date" not in headers:
        return f"{address} over TLS; it does not say its time"
    skew = (datetime.now(UTC) - parsedate_to_datetime(headers["Date"])).total_seconds()
    if abs(skew) > MAX_SKEW:
        raise _Wrong(f"this clock is {skew:+.0f} s from the server's; switch on NTP")
    return f"{address} over TLS; this clock is {skew:+.0f} s from its"


def _exposure(folder: Path) -> str:
    """Look whether the control interface, which has no login, can be reached from here."""
    status, _ = _ask(folder, "/v1/control/list-runs", "POST")
    if status in (403, 404):
        return "the control interface is closed"
    if _is_loopback(_agreed(folder, "address")):
        return "loopback, for trials"
    raise _Wrong(
        f"the server's control interface answers from here ({status}); tell the operator that "
        f"the reverse proxy (nginx.conf) must be in front"
    )


def _is_loopback(address: str) -> bool:
    return address.rpartition(":")[0] in ("127.0.0.1", "localhost")
