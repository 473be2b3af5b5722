"""Keep a share of each site's cases for validation, patients whole; nobody trains on them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from feda3i.core.cases import Cases, Federation, Index
from feda3i.errors import RecipeError
from feda3i.seeding import rng


def hold_out(cases: Cases, index: Index, share: float, seed: int, site: str) -> tuple[Index, Index]:
    """Return the positions that a site trains on, and those that it keeps for validation.

    Whole groups (patients) are drawn until at least this share of the cases is kept; one group at
    least is left to train on. Site and server come to the same result from seed and name.
    """
    groups = [cases.groups[k] if cases.groups else cases.ids[k] for k in index]
    kept = drawn_groups(groups, share, rng(seed, "validation", site))
    is_kept = np.array([group in kept for group in groups], dtype=bool)
    return index[~is_kept], index[is_kept]


def drawn_groups(groups: Sequence[str], share: float, draw: np.random.Generator) -> set[str]:
    """Return the groups that are kept.

    >>> sorted(drawn_groups(["a", "a", "b", "c"], 0.5, np.random.default_rng(0)))
    ['a', 'c']
    >>> drawn_groups(["a", "a"], 0.5, np.random.default_rng(0))
    set()
    """
    names = sorted(set(groups))
    wanted = math.ceil(share * len(groups) - 1e-9)
    kept: set[str] = set()
    taken = 0
    for place in draw.permutation(len(names))[: len(names) - 1]:
        if taken >= wanted:
            break
        kept.add(names[place])
        taken += groups.count(names[place])
    return kept


def with_validation(federation: Federation, share: float, seed: int) -> Federation:
    """Return the federation with a share of every site's cases kept for validation.

    A federation that has validation cases stays as it is.
    """
    if share == 0 or federation.validation:
        return federation
    parts = {
        site: hold_out(federation.train, np.asarray(index), share, seed, site)
        for site, index in federation.sites.items()
    }
    if not any(len(kept) for _, kept in parts.values()):
        raise RecipeError(
            f"validation.share={share:g}: no site can keep a case, because none has cases of two "
            "patients; use validation.share=0, or larger sites"
        )
    return replace(
        federation,
        sites={site: trained for site, (trained, _) in parts.items()},
        validation={site: kept for site, (_, kept) in parts.items()},
    )
