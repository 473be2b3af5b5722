"""Write the folders of a consortium: for the server, for every site, and the authority's key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from secrets import token_bytes

from feda3i.basics.files import write_file
from feda3i.deploy import credentials
from feda3i.deploy.settings import ConsortiumSettings, check_site_name, read_settings
from feda3i.errors import RecipeError
from feda3i.flower.guard import write_commands

AUTHORITY = "feda3i consortium"
NODE_PORT = 9094
TEXTS = files("feda3i.deploy") / "files"
"""What ``deploy init`` writes: ``@NAME@`` in these files stands for a value."""


def write_consortium(out: Path, settings: ConsortiumSettings) -> None:
    """Write all folders of a new consortium; nothing that exists is overwritten."""
    if out.exists() and any(out.iterdir()):
        raise RecipeError(f"'{out}' already holds something; choose another folder")
    authority = out / "authority"
    authority.mkdir(parents=True)
    authority.chmod(0o700)
    certificate, key = credentials.make_authority(authority, AUTHORITY, settings.days)
    _write_server(out / "server", settings)
    hosts = [settings.host, "localhost", "127.0.0.1"]
    credentials.make_server_certificate(out / "server", hosts, certificate, key, settings.days)
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


def renew(out: Path, days: int) -> bool:
    """Write a new certificate and key for the server, signed by the same authority.

    If the authority's own certificate would expire first, it is written again for the same key;
    return whether it was, because every site then needs the new ``ca.crt``.
    """
    try:
        certificate, key = credentials.read_authority(out / "authority")
        hosts = credentials.hosts_of(out / "server" / "server.crt")
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"'{out}' needs authority/ca.key, authority/ca.crt and server/server.crt: {error}"
        ) from None
    is_old = credentials.days_left(out / "authority" / "ca.crt") < days
    if is_old:
        certificate = credentials.sign_authority(out / "authority", AUTHORITY, key, days)
        for place in (out / "server", *(out / "sites").glob("*")):
            write_file(place / "ca.crt", (out / "authority" / "ca.crt").read_bytes())
    credentials.make_server_certificate(out / "server", hosts, certificate, key, days)
    return is_old


def rotate(folder: Path) -> None:
    """Make a new key pair in a site's folder, in the place of the old one."""
    name = read_settings(folder / "site.toml", "is it a site's folder?").get("site")
    check_site_name(str(name))
    credentials.make_node_key(folder / "node.key", folder / "node.pub", str(name))


def take_key(server: Path, site: str, public: Path) -> None:
    """Put a site's public key among those that the server lets in."""
    check_site_name(site)
    try:
        line = credentials.read_public(public.read_bytes())
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"'{public}' is not a site's public key ({error}); expected node.pub, ECDSA"
        ) from None
    (server / "keys").mkdir(exist_ok=True)
    write_file(server / "keys" / f"{site}.pub", line + b" " + site.encode() + b"\n")


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
