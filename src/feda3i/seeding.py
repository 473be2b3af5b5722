"""Random generators made of (seed, scope...): no draw depends on the order of other draws.

>>> first, again = rng(0, "noise", "site-1", "case-7"), rng(0, "noise", "site-1", "case-7")
>>> bool(first.integers(100) == again.integers(100))
True
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np

from feda3i.errors import RecipeError

if TYPE_CHECKING:
    import torch

Scope = str | int
Draws = np.random.Generator | int
"""Where draws come from: a generator, or a whole number that seeds a new one."""


def derive(seed: int, *scope: Scope) -> int:
    """Return a 128-bit integer that depends on the seed and every part of the scope."""
    text = json.dumps([int(seed), *[s if isinstance(s, str) else int(s) for s in scope]])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def rng(seed: int, *scope: Scope) -> np.random.Generator:
    """Return NumPy's generator for this seed and scope, e.g. ``rng(seed, "noise", site, case)``."""
    return np.random.default_rng(derive(seed, *scope))


def torch_rng(seed: int, *scope: Scope) -> torch.Generator:
    """Return a CPU torch generator for this seed and scope."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *scope) & (2**63 - 1))


def generator(draws: Draws) -> np.random.Generator:
    """Return a generator as it is, and the generator of a seed: ``np.random.default_rng(seed)``.

    >>> bool(generator(3).random() == np.random.default_rng(3).random())
    True
    """
    if isinstance(draws, np.random.Generator):
        return draws
    if isinstance(draws, int | np.integer) and not isinstance(draws, bool) and draws >= 0:
        return np.random.default_rng(int(draws))
    raise RecipeError(
        f"rng: expected a seed (a whole number from 0) or a generator such as "
        f"np.random.default_rng(0), found {draws!r}"
    )
