"""What a consortium consists of, in ``consortium.toml`` of the operator's folder."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tomli_w

from feda3i import __version__
from feda3i.basics.files import write_file
from feda3i.engine.workers import ENVIRONMENT
from feda3i.errors import RecipeError
from feda3i.flower.node import SITE_NAME

FILE = "consortium.toml"


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

    @property
    def host(self) -> str:
        """Return the name or address of the server."""
        return self.address.rpartition(":")[0]

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

    def values(self) -> dict[str, str]:
        """Return what stands for the names in the files of the package."""
        return {
            "ADDRESS": self.address,
            "HOST": self.host,
            "PUBLIC_PORT": self.address.rpartition(":")[2],
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
