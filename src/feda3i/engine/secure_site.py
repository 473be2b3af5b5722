"""What a site answers when secure aggregation asks for keys; no network and no cases are needed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from feda3i.core.messages import Order, Reply
from feda3i.engine.job import Job
from feda3i.errors import WireError

if TYPE_CHECKING:
    from feda3i.privacy.vault import Vault


def open_vault(job: Job, site: str, home: Path, secrets: Path) -> Vault:
    """Return a site's vault: ``home`` keeps its identity, ``secrets`` those of this run."""
    if not job.is_secure:
        raise WireError("asked for keys in a run without secure aggregation")
    from feda3i.privacy.vault import Vault  # needs the extra 'secure'

    section = job.recipe.secure
    return Vault(site, home, secrets, section.dropouts, section.max_weight)


def secrets_of(memory: Path, site: str) -> Path:
    """Return where a site keeps its secrets of a run, beside its memory."""
    return memory / f"secure-{file_name_of(site)}"


def file_name_of(site: str) -> str:
    """Return a file name for a site; names from outside must not choose a path."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", site):
        return site
    return "site-" + hashlib.sha256(site.encode()).hexdigest()[:24]


def answer_keys(vault: Vault, order: Order, cases: int) -> Reply:
    """Answer ``introduce``, ``keys`` or ``unmask``."""
    if order.task == "introduce":
        said = vault.introduce()
    elif order.task == "keys":
        said = vault.offer(order.round, order.secure)
    else:
        said = vault.open(order.round, order.secure)
    return Reply(order.task, order.round, order.site, cases, {}, secure=said)
