"""Synthetic federations: any number of sites and cases, any size, same bytes for the same seed.

Three families with known truth, for the demo, the tests and work without real images:
``synthetic-skin`` (RGB, like dermoscopy), ``synthetic-breast`` (grey, like ultrasound from three
scanners) and ``synthetic-volumes`` (two classes, like MR). Case ``i`` is drawn from
``rng(seed, FAMILY, "train", i)``, or ``"test"``: any case can be made alone, and more sites leave
the pictures of the earlier ones as they are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from feda3i.core.cases import Cases, Federation, Images, Masks
from feda3i.core.ragged import stacked
from feda3i.errors import RecipeError
from feda3i.ram import check_fits
from feda3i.seeding import rng
from feda3i.synthetic.fields import SMALLEST
from feda3i.synthetic.skin import skin_case
from feda3i.synthetic.ultrasound import SOURCES, breast_case
from feda3i.synthetic.volumes import CLASSES, SMALLEST_VOLUME, volume_case

Draw = Callable[[np.random.Generator, int], tuple[Images, Masks]]
"""Draws a case, given whose turn among the sources it is."""


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
        Number of sites; not needed with real sites (partition ``by-folder``).
    cases
        Training cases per site; of a folder at most this many, drawn, not cut off.
    test
        Test cases; of a folder at most this many, drawn, not cut off.
    size
        Side of a frame in pixels, 32 or more; of volumes the longest, 24 or more.
    seed
        Seed of what the data set draws, cases or their division, if it is not to be the run's.
    softness
        Times the usual width over which lesions fade into the skin, 0.05 to 20. The masks are the
        same for every value.
    """
    if not 0.05 <= softness <= 20:
        raise RecipeError(f"synthetic-skin: expected softness from 0.05 to 20, found {softness}")
    draw = lambda rng, _: skin_case(rng, size, softness)
    return _federation("synthetic-skin", sites, cases, test, size, seed, 4 * size**2, draw)


def synthetic_breast(
    *, sites: int = 12, cases: int = 16, test: int = 64, size: int = 64, seed: int = 0
) -> Federation:
    """Make a federation of ultrasound-like cases; sites, like test cases, take scanners in turn.

    The options are those of :func:`synthetic_skin`.
    """

    def draw(rng: np.random.Generator, turn: int) -> tuple[Images, Masks]:
        return breast_case(rng, size, SOURCES[turn % len(SOURCES)])

    counts = (sites, cases, test, size, seed)
    return _federation("synthetic-breast", *counts, 2 * size**2, draw, sources=SOURCES)


def synthetic_volumes(
    *,
    sites: int = 12,
    cases: int = 8,
    test: int = 24,
    size: int = 48,
    thick: float = 1.0,
    seed: int = 0,
) -> Federation:
    """Make a federation of volumes of two classes; sizes and intensities differ by case.

    The other options are those of :func:`synthetic_skin`.

    Parameters
    ----------
    thick
        Height of a slice, in millimetres; rows and columns are 1 mm apart.
    """
    if not 0.1 <= thick <= 20:
        raise RecipeError(f"synthetic-volumes: expected thick from 0.1 to 20 mm, found {thick}")
    return _federation(
        "synthetic-volumes",
        *(sites, cases, test, size, seed),
        int(5 * size**3 / thick),
        lambda rng, _: volume_case(rng, size, thick),
        smallest=SMALLEST_VOLUME,
        classes=CLASSES,
        spacing=(thick, 1.0, 1.0),
    )


def _federation(
    family: str,
    sites: int,
    cases: int,
    test: int,
    size: int,
    seed: int,
    case_bytes: int,
    draw: Draw,
    smallest: int = SMALLEST,
    sources: tuple[str, ...] = (),
    spacing: tuple[float, ...] = (),
    **more: Any,
) -> Federation:
    for option, found in {"sites": sites, "cases": cases, "test": test, "size": size}.items():
        if found < (least := smallest if option == "size" else 1):
            raise RecipeError(f"{family}: expected {option} >= {least}, found {found}")
    what, needed = f"{family} of {sites} x {cases} cases of {size} px", sites * cases + test
    check_fits(what, needed * case_bytes, "use fewer or smaller cases")

    def drawn(part: str, turns: list[int]) -> Cases:
        made = [draw(rng(seed, family, part, i), turn) for i, turn in enumerate(turns)]
        return Cases(
            ids=tuple(f"{family}-{part}-{i:05d}" for i in range(len(made))),
            images=stacked([image for image, _ in made]),
            masks=stacked([mask for _, mask in made]),
            sources=tuple(sources[turn % len(sources)] for turn in turns) if sources else (),
            spacing=np.tile(spacing, (len(made), 1)) if spacing else None,
        )

    digits = max(2, len(str(sites)))
    owned = np.arange(sites * cases).reshape(sites, cases)
    return Federation(
        train=drawn("train", [site for site in range(sites) for _ in range(cases)]),
        sites={f"site-{k + 1:0{digits}d}": index for k, index in enumerate(owned)},
        test=drawn("test", list(range(test))),
        notes={"made": family, "seed": seed, "licence": "synthetic, no restrictions"},
        **more,
    )
