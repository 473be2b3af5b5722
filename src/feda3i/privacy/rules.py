"""What both sides of secure aggregation hold each other to: how many sites, which weights."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from feda3i.basics.files import write_file
from feda3i.core.messages import Floats, Params
from feda3i.errors import WireError, shown

Dropouts = int | Literal["auto"]
FEWEST = 3
"""Sites below which a sum hides nobody: of two, each knows the other's part."""
MAX_SITES = 1000
_HEX = re.compile(r"[0-9a-f]+")


def needed_of(sites: int, dropouts: Dropouts) -> int:
    """Return how many of a round's sites must stay to its end.

    More than half: so no server can collect what it takes to unmask a site by telling one half that
    it was lost and the other half that it was not.

    >>> [needed_of(n, "auto") for n in (3, 4, 7, 10, 20)]
    [3, 3, 5, 7, 14]
    >>> needed_of(3, 1)
    2
    """
    if not FEWEST <= sites <= MAX_SITES:
        raise WireError(
            f"secure aggregation needs {FEWEST} to {MAX_SITES} sites in a round, found {sites}: "
            f"fewer cannot hide each other"
        )
    most = (sites - 1) // 2
    lost = (sites - 1) // 3 if dropouts == "auto" else dropouts
    if lost > most:
        raise WireError(
            f"secure.dropouts = {lost} with {sites} sites: expected at most {most}, since more "
            f"than half must stay; otherwise a server that lies about who was lost could read a "
            f"single site"
        )
    return sites - lost


def check_weights_of(weights: Mapping[str, Sequence[float]], stages: int, most: float) -> Floats:
    """Return weights as ``(site, stage)``; raise ``WireError`` if they would single a site out."""
    try:
        table = np.array([weights[site] for site in sorted(weights)], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise WireError("expected rows of weights as numbers") from None
    if table.shape != (len(weights), stages):
        raise WireError(f"expected one weight per site and stage ({stages})")
    if not np.all(np.isfinite(table)) or np.any(table < 0):
        raise WireError("expected weights of 0 or more")
    if not np.allclose(table.sum(axis=0), 1.0, atol=1e-9):
        raise WireError("expected weights that sum to one in every stage")
    if table.max() > most:
        raise WireError(
            f"a site would have {table.max():.1%} of the weight in a stage; at most {most:.1%} "
            f"hide it among the others (secure.max_weight)"
        )
    return table


def context_hash(*parts: Any) -> str:
    """Return a hash of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def digest_of(params: Params) -> str:
    """Return a hash of a network's state."""
    sha = hashlib.sha256(params.values.tobytes())
    sha.update(params.counts.tobytes())
    return sha.hexdigest()


def note_once(path: Path, question: str, answer: str, refusal: str) -> None:
    """Remember what was answered to a question; raise ``WireError`` if it was something else."""
    known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    if known.get(question, answer) != answer:
        raise WireError(refusal)
    if question not in known:
        write_file(path, json.dumps({**known, question: answer}).encode(), mode=0o600)


# -- values from outside --------------------------------------------------------------------------


def table_in(message: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table of a message by site."""
    value = message.get(name)
    if not isinstance(value, dict) or len(value) > MAX_SITES:
        raise WireError(f"secure aggregation: expected '{name}' by site, found {shown(value)}")
    return value


def hex_in(value: Any, name: str, size: int) -> str:
    """Return a text if it is this many bytes as hexadecimal digits."""
    if not (isinstance(value, str) and len(value) == 2 * size and _HEX.fullmatch(value)):
        raise WireError(
            f"secure aggregation: expected '{name}' as {size} bytes of hexadecimal digits, found "
            f"{shown(value)}"
        )
    return value


def names_in(message: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of sites, sorted."""
    value = message.get(name)
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if not isinstance(value, list) or not is_list or len(set(value)) != len(value):
        raise WireError(f"secure aggregation: expected '{name}' as a list of sites")
    return sorted(value)
