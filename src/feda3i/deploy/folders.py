"""Write the folders of a consortium: for the server, for every site, and the authority's key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from feda3i import __version__
from feda3i.basics.files import write_file
from feda3i.deploy import credentials, guides, templates
from feda3i.engine.workers import ENVIRONMENT
from feda3i.errors import RecipeError
from feda3i.flower.guard import write_commands
from feda3i.flower.node import SITE_NAME

NODE_PORT = 9094


@dataclass(frozen=True)
class Plan:
    """Where everything will lie.

    Parameters
    ----------
    sites
        Names of the sites.
    address
        ``host:port`` at which sites reach the proxy.
    port
        Port of the SuperLink on the server's loopback address.
    server
        Absolute folder of the server's files on the server.
    runs
        Absolute folder of run folders on the server.
    data, state
        What ``site.toml`` says first; every site sets its own.
    days
        How long certificates are valid.
    """

    sites: tuple[str, ...]
    address: str
    port: int = 8000
    server: Path = Path("/opt/feda3i/server")
    runs: Path = Path("/var/lib/feda3i/runs")
    data: Path = Path("/data")
    state: Path = Path("/var/lib/feda3i/state")
    days: int = 825

    def __post_init__(self) -> None:
        for site in self.sites:
            check_site(site)
        if not self.sites or len(set(self.sites)) != len(self.sites):
            raise RecipeError("--sites: expected one or more different names, with commas")
        if not re.fullmatch(r"[A-Za-z0-9.-]+:\d{1,5}", self.address):
            raise RecipeError(f"--address: expected host:port, found '{self.address}'")

    @property
    def host(self) -> str:
        """Return the name or address of the server."""
        return self.address.rpartition(":")[0]

    def values(self) -> dict[str, str]:
        """Return what stands for the names in the templates."""
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
            "VERSION": __version__,
            "QUIET": templates.QUIET.rstrip(),
            "ENVIRONMENT": "\n".join(f"export {k}={v}" for k, v in ENVIRONMENT.items()),
        }


def check_site(name: str) -> None:
    """Raise ``RecipeError`` unless a name can be a file name, a key's name and a folder."""
    if not SITE_NAME.fullmatch(name):
        raise RecipeError(
            f"expected site names of letters, digits, - and _, found '{name}'; e.g. clinic-a"
        )


def write_consortium(out: Path, plan: Plan) -> None:
    """Write all folders of a new consortium; nothing that exists is overwritten."""
    if out.exists() and any(out.iterdir()):
        raise RecipeError(f"'{out}' already holds something; choose another folder")
    authority = out / "authority"
    authority.mkdir(parents=True)
    authority.chmod(0o700)
    certificate, key = credentials.make_authority(authority, "feda3i consortium", plan.days)
    _write_server(out / "server", plan)
    hosts = [plan.host, "localhost", "127.0.0.1"]
    credentials.make_server_certificate(out / "server", hosts, certificate, key, plan.days)
    write_file(out / "server" / "ca.crt", (authority / "ca.crt").read_bytes())
    for site in plan.sites:
        write_site(out, plan, site)
    write_file(out / "GUIDE.md", fill(guides.SERVER, plan.values()).encode())


def write_site(out: Path, plan: Plan, site: str) -> Path:
    """Write the folder of one site, and its public key for the server; return the folder."""
    check_site(site)
    folder = out / "sites" / site
    if folder.exists():
        raise RecipeError(f"'{folder}' exists already; choose another name for the site")
    (folder / "flwr").mkdir(parents=True)
    folder.chmod(0o700)
    values = {**plan.values(), "SITE": site, "PORT": str(NODE_PORT)}
    files = {
        "site.toml": templates.SITE_TOML,
        "start.sh": templates.SITE_START,
        "compose.yaml": templates.SITE_COMPOSE,
        "Dockerfile": templates.DOCKERFILE,
        "GUIDE.md": guides.SITE,
    }
    _write_files(folder, files, values)
    write_file(folder / "ca.crt", (out / "authority" / "ca.crt").read_bytes())
    credentials.make_node_key(folder / "node.key", folder / "node.pub", site)
    write_commands(folder / "bin", "site")
    keys = out / "server" / "keys"
    keys.mkdir(exist_ok=True)
    write_file(keys / f"{site}.pub", (folder / "node.pub").read_bytes())
    return folder


def add_site(out: Path, site: str) -> Path:
    """Write the folder of a site that joins an existing consortium."""
    check_site(site)
    if (out / "sites" / site).exists():
        raise RecipeError(f"'{site}' exists already; choose another name for the site")
    env = read_env(out / "server" / "server.env")
    start = next(iter(sorted((out / "sites").glob("*/start.sh"))), None)
    found = re.search(r'--superlink "([^"]+)"', start.read_text() if start else "")
    if found is None:
        raise RecipeError(f"'{out}' is not a folder of 'feda3i deploy init': no site's start.sh")
    sites = tuple(env["FEDA3I_SITES"].split(","))
    plan = Plan((*sites, site), found[1], int(env["FEDA3I_PORT"]), runs=Path(env["FEDA3I_RUNS"]))
    folder = write_site(out, plan, site)
    path = out / "server" / "server.env"
    old, new = f'FEDA3I_SITES="{",".join(sites)}"', f'FEDA3I_SITES="{",".join(plan.sites)}"'
    write_file(path, path.read_text().replace(old, new).encode())
    return folder


def renew(out: Path, days: int) -> None:
    """Write a new certificate and key for the server, signed by the same authority."""
    try:
        certificate, key = credentials.read_authority(out / "authority")
        hosts = credentials.hosts_of(out / "server" / "server.crt")
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"'{out}' needs authority/ca.key, authority/ca.crt and server/server.crt: {error}"
        ) from None
    credentials.make_server_certificate(out / "server", hosts, certificate, key, days)


def read_env(path: Path) -> dict[str, str]:
    """Return the values of a ``NAME="value"`` file."""
    try:
        text = path.read_text()
    except OSError:
        raise RecipeError(f"'{path}' cannot be read; is it a folder of feda3i deploy?") from None
    return dict(re.findall(r'^([A-Z0-9_]+)="?([^"\n]*)"?$', text, re.MULTILINE))


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its values.

    >>> fill("listen @PORT@;", {"PORT": "8443"})
    'listen 8443;'
    """
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], template)


def _write_server(folder: Path, plan: Plan) -> None:
    for part in ("flwr", "keys", "log"):
        (folder / part).mkdir(parents=True)
    folder.chmod(0o700)
    files = {
        "server.env": templates.SERVER_ENV,
        "start.sh": templates.SERVER_START,
        "flwr/config.toml": templates.FLWR_CONFIG,
        "nginx.conf": templates.NGINX,
        "compose.yaml": templates.SERVER_COMPOSE,
        "Dockerfile": templates.DOCKERFILE,
    }
    _write_files(folder, files, plan.values())
    credentials.make_secret(folder / "superexec.secret")
    write_commands(folder / "bin", "server")


def _write_files(folder: Path, files: Mapping[str, str], values: Mapping[str, str]) -> None:
    for name, template in files.items():
        write_file(folder / name, fill(template, values).encode())
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)


def split_names(text: str) -> Sequence[str]:
    """Return names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
