"""Synthetic federations: any number of sites and cases, any size, same bytes for the same seed.

Two families with known truth, for the demo, the tests and work without real images:
``synthetic-skin`` (RGB, like dermoscopy) and ``synthetic-breast`` (grey, like ultrasound from three
scanners). Each case has its own generator: any case can be made alone, and more sites leave the
pictures of the earlier ones as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from feda3i.basics.ram import check_fits
from feda3i.core.cases import Cases, Federation, Images, Index, Masks
from feda3i.errors import RecipeError
from feda3i.seeding import rng
from feda3i.synthetic.fields import SMALLEST
from feda3i.synthetic.skin import skin_case
from feda3i.synthetic.ultrasound import SOURCES, breast_case

__all__ = ["SOURCES", "breast_case", "skin_case", "synthetic_breast", "synthetic_skin"]


@dataclass(frozen=True)
class _Family:
    """One kind of picture: how to draw it and which sources take turns."""

    name: str
    channels: int
    draw: Callable[[np.random.Generator, int, str], tuple[Images, Masks]]
    sources: tuple[str, ...] = ()


def synthetic_skin(
    *,
    sites: int = 12,
    cases: int = 16,
    test: int = 64,
    size: int = 64,
    seed: int = 0,
    softness: float = 1.0,
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
    softness
        Times the usual width over which lesions fade into the skin, 0.05 to 20. The masks are the
        same for every value.

    >>> synthetic_skin(sites=2, cases=3, test=2, size=32).names()
    ['site-01', 'site-02']
    """
    if not 0.05 <= softness <= 20:
        raise RecipeError(f"synthetic-skin: expected softness from 0.05 to 20, found {softness}")
    family = _Family("synthetic-skin", 3, lambda rng, size, _: skin_case(rng, size, softness))
    return _federation(family, sites=sites, cases=cases, test=test, size=size, seed=seed)


def synthetic_breast(
    *, sites: int = 12, cases: int = 16, test: int = 64, size: int = 64, seed: int = 0
) -> Federation:
    """Make a federation of ultrasound-like cases; each site owns one of three scanners.

    Parameters
    ----------
    sites
        Number of sites, named ``site-01`` and so on; scanners are given in turn.
    cases, size
        As for :func:`synthetic_skin`.
    test
        Test cases, held by no site; scanners in turn.
    seed
        Case ``i`` is drawn from ``rng(seed, "synthetic-breast", "train", i)``, or ``"test"``.

    >>> made = synthetic_breast(sites=3, cases=1, test=1, size=32)
    >>> made.train.sources
    ('scanner-a', 'scanner-b', 'scanner-c')
    """
    family = _Family("synthetic-breast", 1, breast_case, SOURCES)
    return _federation(family, sites=sites, cases=cases, test=test, size=size, seed=seed)


def _federation(
    family: _Family, *, sites: int, cases: int, test: int, size: int, seed: int
) -> Federation:
    least = {"sites": (sites, 1), "cases": (cases, 1), "test": (test, 1), "size": (size, SMALLEST)}
    for option, (value, smallest) in least.items():
        if value < smallest:
            raise RecipeError(f"{family.name}: expected {option} >= {smallest}, found {value}")
    pixels = (sites * cases + test) * size * size * (family.channels + 1)
    check_fits(
        f"{family.name} of {sites} x {cases} cases of {size} px",
        pixels,
        "use fewer or smaller cases",
    )
    digits = max(2, len(str(sites)))
    owned = np.arange(sites * cases).reshape(sites, cases)
    return Federation(
        train=_draw_cases(family, "train", np.repeat(np.arange(sites), cases), size, seed),
        sites={f"site-{k + 1:0{digits}d}": index for k, index in enumerate(owned)},
        test=_draw_cases(family, "test", np.arange(test), size, seed),
        notes={"made": family.name, "seed": seed, "licence": "synthetic, no restrictions"},
    )


def _draw_cases(family: _Family, part: str, turn: Index, size: int, seed: int) -> Cases:
    """Draw one case for each entry of ``turn``, which says whose turn among the sources it is."""
    sources = tuple(family.sources[k % len(family.sources)] for k in turn) if family.sources else ()
    images = np.empty((len(turn), size, size, family.channels), np.uint8)
    masks = np.empty((len(turn), size, size), np.uint8)
    for i in range(len(turn)):
        generator = rng(seed, family.name, part, i)
        images[i], masks[i] = family.draw(generator, size, sources[i] if sources else "")
    ids = tuple(f"{family.name}-{part}-{i:05d}" for i in range(len(turn)))
    return Cases(ids=ids, images=images, masks=masks, sources=sources)
