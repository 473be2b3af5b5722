"""Synthetic federations: any number of sites and cases, any size, same bytes for the same seed.

Two families with known truth, for the demo, the tests and work without real images:
``synthetic-skin`` (RGB, like dermoscopy) and ``synthetic-breast`` (grey, like ultrasound from three
scanners). Each case has its own generator: any case can be made alone, and more sites leave the
pictures of the earlier ones as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from feda3i.data.base import Cases, Federation, Images, Masks
from feda3i.data.synthetic_breast import SOURCES, breast_case
from feda3i.data.synthetic_skin import skin_case
from feda3i.errors import RecipeError
from feda3i.seeding import rng

__all__ = ["SOURCES", "breast_case", "skin_case", "synthetic_breast", "synthetic_skin"]

Draw = Callable[[np.random.Generator, int, str], tuple[Images, Masks]]


def synthetic_skin(
    *, sites: int = 12, cases: int = 16, test: int = 64, size: int = 64, seed: int = 0
) -> Federation:
    """Make a federation of dermoscopy-like cases.

    Parameters
    ----------
    sites
        Number of sites, named ``site-01`` and so on.
    cases
        Training cases of each site.
    test
        Test cases, held by no site.
    size
        Pixels of the square frame, 32 or more.
    seed
        Case ``i`` is drawn from ``rng(seed, "synthetic-skin", "train", i)``, or ``"test"``.

    >>> synthetic_skin(sites=2, cases=3, test=2, size=32).names()
    ['site-01', 'site-02']
    """
    return _federation(
        "synthetic-skin", lambda r, s, _: skin_case(r, s), (), sites, cases, test, size, seed
    )


def synthetic_breast(
    *, sites: int = 12, cases: int = 16, test: int = 64, size: int = 64, seed: int = 0
) -> Federation:
    """Make a federation of ultrasound-like cases; each site owns one of three scanners.

    Parameters
    ----------
    sites
        Number of sites, named ``site-01`` and so on; scanners are given in turn.
    cases
        Training cases of each site.
    test
        Test cases, held by no site; scanners in turn.
    size
        Pixels of the square frame, 32 or more.
    seed
        Case ``i`` is drawn from ``rng(seed, "synthetic-breast", "train", i)``, or ``"test"``.

    >>> made = synthetic_breast(sites=3, cases=1, test=1, size=32)
    >>> made.train.sources
    ('scanner-a', 'scanner-b', 'scanner-c')
    """
    return _federation("synthetic-breast", breast_case, SOURCES, sites, cases, test, size, seed)


def _federation(
    name: str,
    draw: Draw,
    sources: tuple[str, ...],
    sites: int,
    cases: int,
    test: int,
    size: int,
    seed: int,
) -> Federation:
    for option, value in (("sites", sites), ("cases", cases), ("test", test)):
        if value < 1:
            raise RecipeError(f"{name}: expected {option} >= 1, found {value}")
    digits = max(2, len(str(sites)))
    owner = np.repeat(np.arange(sites), cases)
    return Federation(
        train=_draw_cases(name, "train", draw, _in_turn(sources, owner), len(owner), size, seed),
        sites={f"site-{k + 1:0{digits}d}": np.flatnonzero(owner == k) for k in range(sites)},
        test=_draw_cases(name, "test", draw, _in_turn(sources, np.arange(test)), test, size, seed),
        notes={"made": name, "seed": seed, "size": size, "licence": "synthetic, no restrictions"},
    )


def _in_turn(sources: tuple[str, ...], index: np.ndarray) -> tuple[str, ...]:
    return tuple(sources[i % len(sources)] for i in index) if sources else ()


def _draw_cases(
    name: str, part: str, draw: Draw, sources: tuple[str, ...], count: int, size: int, seed: int
) -> Cases:
    made = [
        draw(rng(seed, name, part, i), size, sources[i] if sources else "") for i in range(count)
    ]
    return Cases(
        ids=tuple(f"{name}-{part}-{i:05d}" for i in range(count)),
        images=np.stack([image for image, _ in made]),
        masks=np.stack([mask for _, mask in made]),
        sources=sources,
    )
