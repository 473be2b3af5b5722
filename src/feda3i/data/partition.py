"""Divide cases: set test cases aside, and deal the others out to sites.

Real sites (``by-folder``) keep the names of their folders, those of a source (``by-source``) the
name of the source, with a number where it has several; others are ``site-01``, ``site-02``, ...
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from feda3i import seeding
from feda3i.core.cases import Index
from feda3i.errors import DataError, RecipeError, unknown

Parts = dict[str, Index]
PARTITIONS = ("iid", "by-source", "dirichlet", "by-folder", "published")
TEST_SHARE = 0.2  # 8:2, as the paper divides BREAST


def split_cases(
    sources: Sequence[str], groups: Sequence[str], given: Sequence[str] | None = None
) -> list[str]:
    """Return ``"train"`` or ``"test"`` for every case.

    In each source whole groups are drawn until at least a fifth of the cases (rounded up) are test
    cases, so images of one patient never lie on both sides. What is given stays.

    >>> split_cases(["a"] * 5 + ["b"] * 6, [str(i) for i in range(11)]).count("test")
    3
    """
    result = list(given or [""] * len(sources))
    members: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, (source, group) in enumerate(zip(sources, groups, strict=True)):
        if not result[i]:
            members[source][group].append(i)
    for source, own in sorted(members.items()):
        names = sorted(own)
        wanted = math.ceil(TEST_SHARE * sum(map(len, own.values())))
        for place in seeding.rng(0, "split", source).permutation(len(names)):
            cases = own[names[place]]
            for i in cases:
                result[i] = "test" if wanted > 0 else "train"
            wanted -= len(cases)
    return result


def site_names(sites: int, of: str = "site") -> list[str]:
    """Return names with leading zeros, so that sorting keeps their order.

    >>> site_names(100)[0]
    'site-001'
    """
    digits = max(2, len(str(sites)))
    return [f"{of}-{number:0{digits}d}" for number in range(1, sites + 1)]


def divide(
    partition: str,
    *,
    sources: Sequence[str],
    folders: Sequence[str],
    sites: int | None,
    rng: np.random.Generator,
    alpha: float = 0.5,
) -> Parts:
    """Divide cases by the partition's name; ``sources`` and ``folders`` have one entry per case.

    ``iid``: shuffled, equal parts (sizes differ by one at most). ``published``: as the authors did
    it, by numpy's legacy generator with seed 0. ``dirichlet``: a small ``alpha`` makes a few large
    sites, a large one nearly equal ones.

    >>> draw = np.random.default_rng(0)
    >>> parts = divide("iid", sources=[""] * 10, folders=[""] * 10, sites=4, rng=draw)
    >>> [len(part) for part in parts.values()]
    [3, 3, 2, 2]
    """
    n = len(sources)
    if partition not in PARTITIONS:
        raise unknown("partition", partition, PARTITIONS)
    if partition == "by-folder":
        return _by_folder(folders, sites)
    if sites is None:
        raise RecipeError(f"partition '{partition}' needs the number of sites, e.g. sites=10")
    if sites > n:
        raise DataError(
            f"{sites} sites need at least as many cases, found {n}: use fewer sites "
            "(data.sites), or keep real site folders as they are: feda3i run own data=FOLDER"
        )
    if partition == "by-source":
        return _by_source(sources, sites, rng)
    if partition == "dirichlet":
        return _dirichlet(n, sites, rng, alpha)
    draw = np.random.RandomState(0) if partition == "published" else rng
    return dict(zip(site_names(sites), _deal(draw.permutation(n), sites), strict=True))


def _by_source(sources: Sequence[str], sites: int, rng: np.random.Generator) -> Parts:
    """Give every site cases of one source only; sources get sites in proportion to their cases.

    Each source gets one site at least; the rest goes by largest remainder. Within a source the
    cases are shuffled and dealt out in equal parts.
    """
    names = sorted(set(sources))
    if sites < len(names):
        raise DataError(
            f"by-source needs one site per source at least: found {len(names)} sources "
            f"({', '.join(names)}) and {sites} sites"
        )
    label = np.array([names.index(source) for source in sources])
    shares = _apportion(np.bincount(label, minlength=len(names)), sites).tolist()
    parts: list[Index] = []
    for source, share in enumerate(shares):
        parts += _deal(rng.permutation(np.flatnonzero(label == source)), share)
    return dict(zip(_names_of_sources(names, shares), parts, strict=True))


def _dirichlet(n: int, sites: int, rng: np.random.Generator, alpha: float) -> Parts:
    """Deal out unequal parts: shares from a symmetric Dirichlet distribution, one case at least."""
    shares = rng.dirichlet(np.full(sites, alpha)) * (n - sites)
    extra = np.floor(shares).astype(int)
    # Largest remainder: the cases that rounding left over go where most was cut off.
    for place in np.argsort(-(shares - extra), kind="stable")[: n - sites - extra.sum()]:
        extra[place] += 1
    parts = np.split(rng.permutation(n), np.cumsum(extra + 1)[:-1])
    return dict(zip(site_names(sites), map(np.sort, parts), strict=True))


def _by_folder(folders: Sequence[str], sites: int | None) -> Parts:
    if not all(folders):
        raise DataError(
            "by-folder needs cases in one folder per site (SITE/images, SITE/masks); "
            "found cases without a site: sort them into folders, or simulate sites with "
            "data.partition=iid data.sites=N"
        )
    names, label = np.unique(np.array(folders, dtype=object), return_inverse=True)
    if sites not in (None, len(names)):
        raise RecipeError(f"found {len(names)} site folders, expected sites={sites}: leave it out")
    return {str(name): np.flatnonzero(label == k) for k, name in enumerate(names)}


def _deal(order: Index, parts: int) -> list[Index]:
    return [np.sort(part) for part in np.array_split(order, parts)]


def _names_of_sources(names: Sequence[str], shares: Sequence[int]) -> list[str]:
    """Return the names of sites: the source's own where it has one site, else with a number."""
    numbered = [site_names(k, name or "site") for name, k in zip(names, shares, strict=True)]
    plain = [own if len(own) > 1 or not n else [n] for n, own in zip(names, numbered, strict=True)]
    found = [name for own in plain for name in own]
    if len(set(found)) < len(found):  # a source is called like a numbered site of another
        found = [name for own in numbered for name in own]
    return found


def _apportion(counts: Index, sites: int) -> Index:
    """Return sites per source: one each, the rest by largest remainder, never above the cases."""
    share = np.ones(len(counts), dtype=np.intp)
    ideal = counts * sites / counts.sum()
    for _ in range(sites - len(counts)):
        gap = np.where(share < counts, ideal - share, -np.inf)
        share[int(gap.argmax())] += 1
    return share
