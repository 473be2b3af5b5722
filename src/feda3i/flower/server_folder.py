"""The server's own folder as a run sees it: settings, and which sites are locked out.

A lock is an empty file ``locked/NAME``. It is looked at all the time, so that a run that is under
way leaves the site out within seconds, and takes it in again when the file is gone.
"""

from __future__ import annotations

import re
from pathlib import Path

from feda3i.basics.files import write_file
from feda3i.errors import RecipeError

ENV = "server.env"
LOCKED = "locked out by the operator"


def read_env(path: Path) -> dict[str, str]:
    """Return the values of a ``NAME="value"`` file, which shells read, too."""
    try:
        text = path.read_text()
    except OSError:
        raise RecipeError(f"'{path}' cannot be read; is it a folder of feda3i deploy?") from None
    return dict(re.findall(r'^([A-Z0-9_]+)="?([^"\n]*)"?$', text, re.MULTILINE))


def locked_sites(server: Path | None) -> set[str]:
    """Return the names of the sites that are locked out; without a folder there are none."""
    if server is None:
        return set()
    try:
        return {path.name for path in (server / "locked").iterdir()}
    except FileNotFoundError:
        return set()


def lock_site(server: Path, site: str) -> bool:
    """Lock a site out; return whether that changed anything."""
    _check_known(server, site)
    if site in locked_sites(server):
        return False
    (server / "locked").mkdir(exist_ok=True)
    write_file(server / "locked" / site, b"")
    return True


def unlock_site(server: Path, site: str) -> bool:
    """Let a site in again; return whether that changed anything."""
    _check_known(server, site)
    if site not in locked_sites(server):
        return False
    (server / "locked" / site).unlink()
    return True


def _check_known(server: Path, site: str) -> None:
    known = sorted(path.stem for path in (server / "keys").glob("*.pub"))
    if not (server / ENV).is_file():
        raise RecipeError(f"'{server}' is not a server's folder: it has no {ENV}; --server")
    if site not in known:
        raise RecipeError(
            f"'{site[:80]}' is not a site of this consortium; known: {', '.join(known) or 'none'}"
        )
