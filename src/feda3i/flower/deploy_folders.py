"""The folders of a consortium: for the server, for every site, and the authority's key.

What it consists of is in ``consortium.toml`` of the operator's folder.
"""

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from secrets import token_bytes
from typing import Annotated, Any, Self

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from feda3i import __version__
from feda3i.errors import RecipeError
from feda3i.files import make_private, write_file
from feda3i.flower import deploy_credentials as credentials
from feda3i.flower.guard import write_commands
from feda3i.flower.node import SITE_NAME
from feda3i.pool import ENVIRONMENT
from feda3i.values import mistakes

FILE = "consortium.toml"
NODE_PORT = "9094"
TEXTS = files("feda3i.flower") / "files"
"""What ``deploy init`` writes: ``@NAME@`` in these files stands for a value."""


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) != len(names):
        raise ValueError("expected different names")
    return names


_Site = Annotated[str, Field(pattern=SITE_NAME)]


class ConsortiumSettings(BaseModel):
    """Who takes part, and where everything will lie."""

    model_config = ConfigDict(frozen=True)

    sites: Annotated[tuple[_Site, ...], Field(min_length=1), AfterValidator(_different)]
    address: Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+:\d{1,5}$")]
    """``host:port`` at which sites reach the proxy."""
    server: Path  # absolute folder of the server's files on the server
    runs: Path  # absolute folder of run folders on the server
    port: int = 8000  # port of the SuperLink on the server's loopback address
    # What ``site.toml`` says first; every site sets its own
    data: Path = Path("/data")
    state: Path = Path("/var/lib/feda3i/state")
    wait: float = 120.0
    """Seconds that a run waits for all sites before it begins with those that came."""
    version: str = __version__

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Return settings; raise ``RecipeError`` about the first mistake."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise RecipeError(f"consortium: {mistakes(error)}") from None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return what ``write`` wrote."""
        return cls.of(**read_settings(folder / FILE, "is it a folder of 'feda3i deploy init'?"))

    def write(self, folder: Path) -> None:
        """Write ``consortium.toml``, from which sites that join later are made."""
        write_file(folder / FILE, tomli_w.dumps(self.model_dump(mode="json")).encode())

    @property
    def hosts(self) -> list[str]:
        """Return the names and addresses that the server's certificate is for."""
        return [self.address.rpartition(":")[0], "localhost", "127.0.0.1"]

    def values(self) -> dict[str, str]:
        """Return what stands for the names in the files of the package."""
        return {
            **{name.upper(): str(value) for name, value in self},
            "HOST": self.hosts[0],
            "PUBLIC_PORT": self.address.rpartition(":")[2],
            "NAMES": ",".join(map(credentials.san, self.hosts)),
            "SITES": ",".join(self.sites),
            "DAYS": str(credentials.DAYS),
            "ENVIRONMENT": "\n".join(f"export {k}={v}" for k, v in ENVIRONMENT.items()),
        }


def write_consortium(out: Path, settings: ConsortiumSettings) -> None:
    """Write all folders of a new consortium; nothing that exists is overwritten."""
    if out.exists() and any(out.iterdir()):
        raise RecipeError(f"'{out}' already holds something; choose another folder")
    authority, server = make_private(out / "authority"), make_private(out / "server")
    for part in ("flwr", "keys", "log"):
        (server / part).mkdir()
    _write_files(server, settings.values(), "both", "server")
    # Shared by the server's processes only.
    write_file(server / "superexec.secret", token_bytes(32), mode=credentials.PRIVATE)
    write_commands(server / "bin", "server")
    credentials.make_certificates(authority, server, settings.hosts)
    write_file(server / "ca.crt", (authority / "ca.crt").read_bytes())
    for site in settings.sites:
        write_site(out, settings, site)
    _write_files(out, settings.values(), "operator")
    settings.write(out)


def write_site(out: Path, settings: ConsortiumSettings, site: str) -> Path:
    """Write the folder of one site, and its public key for the server; return the folder."""
    folder = out / "sites" / site
    if folder.exists():
        raise RecipeError(f"'{folder}' already exists; choose another name for the site")
    (make_private(folder) / "flwr").mkdir()
    values = {**settings.values(), "SITE": site, "PORT": NODE_PORT}
    _write_files(folder, values, "both", "site")
    write_file(folder / "ca.crt", (out / "authority" / "ca.crt").read_bytes())
    credentials.make_node_key(folder / "node.key", folder / "node.pub", site)
    write_commands(folder / "bin", "site")
    write_file(out / "server" / "keys" / f"{site}.pub", (folder / "node.pub").read_bytes())
    return folder


def add_site(out: Path, site: str) -> Path:
    """Write the folder of a site that joins an existing consortium."""
    before = ConsortiumSettings.read(out)
    settings = ConsortiumSettings.of(**{**dict(before), "sites": (*before.sites, site)})
    folder = write_site(out, settings, site)
    settings.write(out)
    path = out / "server" / "server.env"
    line = f'FEDA3I_SITES="{",".join(settings.sites)}"'
    text = re.sub(r"^FEDA3I_SITES=.*$", line, path.read_text("utf-8"), flags=re.MULTILINE)
    write_file(path, text.encode())
    return folder


def _write_files(folder: Path, values: Mapping[str, str], *places: str) -> None:
    """Write files of the package with values in them; ``_`` in a name stands for ``/``."""
    for item in (item for place in places for item in (TEXTS / place).iterdir()):
        path = folder / item.name.replace("_", "/")
        text = item.read_text("utf-8")
        text = re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], text)
        write_file(path, text.encode())
        if path.suffix == ".sh":
            path.chmod(0o755)


def read_settings(path: Path, advice: str) -> dict[str, Any]:
    """Return a settings file; raise ``RecipeError`` if it is missing or no TOML."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError:
        raise RecipeError(f"'{path}' cannot be read; {advice}") from None
    except ValueError as error:
        raise RecipeError(f"{path.name} is not valid TOML: {error}") from None
