"""The folders of a consortium: for the server, for every site, and the authority's key.

What it consists of is in ``consortium.toml`` of the operator's folder.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from secrets import token_bytes
from typing import Any

import tomli_w

from feda3i import __version__
from feda3i.errors import RecipeError
from feda3i.files import write_file
from feda3i.flower import deploy_credentials as credentials
from feda3i.flower.guard import write_commands
from feda3i.flower.node import SITE_NAME
from feda3i.pool import ENVIRONMENT

FILE = "consortium.toml"
AUTHORITY = "feda3i consortium"
NODE_PORT = 9094
TEXTS = files("feda3i.flower") / "files"
"""What ``deploy init`` writes: ``@NAME@`` in these files stands for a value."""


@dataclass(frozen=True)
class ConsortiumSettings:
    """Who takes part, and where everything will lie."""

    sites: tuple[str, ...]
    address: str  # ``host:port`` at which sites reach the proxy
    port: int = 8000  # port of the SuperLink on the server's loopback address
    server: Path = Path("/opt/feda3i/server")  # absolute folder of the server's files on the server
    runs: Path = Path("/var/lib/feda3i/runs")  # absolute folder of run folders on the server
    # What ``site.toml`` says first; every site sets its own
    data: Path = Path("/data")
    state: Path = Path("/var/lib/feda3i/state")
    days: int = 825  # how long certificates are valid
    wait: float = 120.0
    """Seconds that a run waits for all sites before it begins with those that came."""

    def __post_init__(self) -> None:
        for site in self.sites:
            check_site_name(site)
        if not self.sites or len(set(self.sites)) != len(self.sites):
            raise RecipeError("--sites: expected one or more different names, separated by commas")
        if not re.fullmatch(r"[A-Za-z0-9.-]+:\d{1,5}", self.address):
            raise RecipeError(f"--address: expected host:port, found '{self.address}'")

    def write(self, folder: Path) -> None:
        """Write ``consortium.toml``, from which sites that join later are made."""
        values = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}
        text = tomli_w.dumps({"version": __version__, **values})
        write_file(folder / FILE, text.encode())

    @classmethod
    def read(cls, folder: Path) -> ConsortiumSettings:
        """Return what ``write`` wrote."""
        values = read_settings(folder / FILE, "is it a folder of 'feda3i deploy init'?")
        values.pop("version", None)
        for name in ("server", "runs", "data", "state"):
            values[name] = Path(values.get(name, ""))
        try:
            return cls(**{**values, "sites": tuple(values.get("sites", ()))})
        except TypeError as error:
            raise RecipeError(f"'{folder / FILE}' is not a consortium's: {error}") from None

    @property
    def hosts(self) -> list[str]:
        """Return the names and addresses that the server's certificate is for."""
        return [self.address.rpartition(":")[0], "localhost", "127.0.0.1"]

    def values(self) -> dict[str, str]:
        """Return what stands for the names in the files of the package."""
        return {
            "ADDRESS": self.address,
            "HOST": self.address.rpartition(":")[0],
            "PUBLIC_PORT": self.address.rpartition(":")[2],
            "NAMES": ",".join(credentials.san(host) for host in self.hosts),
            "PORT": str(self.port),
            "SITES": ",".join(self.sites),
            "FOLDER": str(self.server),
            "RUNS": str(self.runs),
            "LOG": str(self.server / "log"),
            "DATA": str(self.data),
            "STATE": str(self.state),
            "DAYS": str(self.days),
            "WAIT": f"{self.wait:g}",
            "VERSION": __version__,
            "ENVIRONMENT": "\n".join(f"export {k}={v}" for k, v in ENVIRONMENT.items()),
        }


def write_consortium(out: Path, settings: ConsortiumSettings) -> None:
    """Write all folders of a new consortium; nothing that exists is overwritten."""
    if out.exists() and any(out.iterdir()):
        raise RecipeError(f"'{out}' already holds something; choose another folder")
    authority = out / "authority"
    authority.mkdir(parents=True)
    authority.chmod(0o700)
    certificate, key = credentials.make_authority(authority, AUTHORITY)
    _write_server(out / "server", settings)
    credentials.make_server_certificate(
        out / "server", settings.hosts, certificate, key, settings.days
    )
    write_file(out / "server" / "ca.crt", (authority / "ca.crt").read_bytes())
    for site in settings.sites:
        write_site(out, settings, site)
    guide = (TEXTS / "GUIDE.md").read_text("utf-8")
    write_file(out / "GUIDE.md", fill(guide, settings.values()).encode())
    settings.write(out)


def write_site(out: Path, settings: ConsortiumSettings, site: str) -> Path:
    """Write the folder of one site, and its public key for the server; return the folder."""
    check_site_name(site)
    folder = out / "sites" / site
    if folder.exists():
        raise RecipeError(f"'{folder}' already exists; choose another name for the site")
    (folder / "flwr").mkdir(parents=True)
    folder.chmod(0o700)
    values = {**settings.values(), "SITE": site, "PORT": str(NODE_PORT)}
    _write_files(folder, "site", values)
    write_file(folder / "ca.crt", (out / "authority" / "ca.crt").read_bytes())
    credentials.make_node_key(folder / "node.key", folder / "node.pub", site)
    write_commands(folder / "bin", "site")
    keys = out / "server" / "keys"
    keys.mkdir(exist_ok=True)
    write_file(keys / f"{site}.pub", (folder / "node.pub").read_bytes())
    return folder


def add_site(out: Path, site: str) -> Path:
    """Write the folder of a site that joins an existing consortium."""
    check_site_name(site)
    if (out / "sites" / site).exists():
        raise RecipeError(f"'{site}' already exists; choose another name for the site")
    before = ConsortiumSettings.read(out)
    settings = replace(before, sites=(*before.sites, site))
    folder = write_site(out, settings, site)
    settings.write(out)
    path = out / "server" / "server.env"
    line = f'FEDA3I_SITES="{",".join(settings.sites)}"'
    write_file(path, re.sub(r"^FEDA3I_SITES=.*$", line, path.read_text(), flags=re.M).encode())
    return folder


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its values.

    >>> fill("listen @PORT@;", {"PORT": "8443"})
    'listen 8443;'
    """
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], template)


def _write_server(folder: Path, settings: ConsortiumSettings) -> None:
    for part in ("flwr", "keys", "log"):
        (folder / part).mkdir(parents=True)
    folder.chmod(0o700)
    _write_files(folder, "server", settings.values())
    # Shared by the server's processes only.
    write_file(folder / "superexec.secret", token_bytes(32), mode=credentials.PRIVATE)
    write_commands(folder / "bin", "server")


def _write_files(folder: Path, kind: str, values: Mapping[str, str]) -> None:
    for place in (TEXTS / "both", TEXTS / kind):
        for name, text in _texts(place):
            write_file(folder / name, fill(text, values).encode())
            if name.endswith(".sh"):
                (folder / name).chmod(0o755)


def _texts(place: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and text of every file below a folder of the package."""
    for item in place.iterdir():
        if item.is_dir():
            yield from _texts(item, f"{above}{item.name}/")
        else:
            yield above + item.name, item.read_text("utf-8")


def check_site_name(name: str) -> None:
    """Raise ``RecipeError`` unless a name can be a file name, a key's name and a folder."""
    if not SITE_NAME.fullmatch(name):
        raise RecipeError(
            f"expected site names of letters, digits, - and _, found '{name}'; e.g. clinic-a"
        )


def read_settings(path: Path, advice: str) -> dict[str, Any]:
    """Return a settings file; raise ``RecipeError`` if it is missing or no TOML."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError:
        raise RecipeError(f"'{path}' cannot be read; {advice}") from None
    except ValueError as error:
        raise RecipeError(f"{path.name} is not valid TOML: {error}") from None
