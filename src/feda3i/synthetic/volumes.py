"""Synthetic volumes: a bent body of two parts in a textured surrounding, like a hippocampus in MR.

Sizes and scales of intensity differ from case to case, as they do between scanners.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Cases, Federation
from feda3i.core.ragged import stacked
from feda3i.errors import RecipeError
from feda3i.seeding import rng

NAME = "synthetic-volumes"
CLASSES = ("anterior", "posterior")
SMALLEST = 24
_SIDES = (0.7, 1.0, 0.7)  # of the longest side: slices, rows, columns
_GREYS = (0.45, 0.75, 0.65)  # of background and the two parts


def volume_case(
    generator: np.random.Generator, size: int, thick: float = 1.0
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return an image ``(slice, row, column, 1)`` and a mask with the values 0, 1 and 2.

    Parameters
    ----------
    size
        About how many rows a volume has; its other sides are shorter.
    thick
        Height of a slice in pixels.

    >>> image, mask = volume_case(np.random.default_rng(0), 32)
    >>> image.shape[:-1] == mask.shape, sorted(set(mask.ravel().tolist()))
    (True, [0, 1, 2])
    """
    from scipy import ndimage

    sides = [max(8, round(size * s * generator.uniform(0.88, 1.12))) for s in _SIDES]
    sides[0] = max(4, round(sides[0] / thick))
    step = np.array([thick, 1.0, 1.0])
    places = np.stack(np.meshgrid(*[np.arange(n) for n in sides], indexing="ij"), axis=-1) * step
    at = (places - np.array(sides) * step / 2) / size  # about -0.5..0.5 along the rows
    z, y, x = np.moveaxis(at - generator.uniform(-0.04, 0.04, 3), -1, 0)
    bend = generator.uniform(0.5, 1.0)
    length, radius = generator.uniform(0.3, 0.36), generator.uniform(0.085, 0.115)
    middle = bend * (y**2 - 0.03)
    away = np.sqrt((z - middle) ** 2 + (x + 0.3 * middle) ** 2)
    wobble = ndimage.gaussian_filter(generator.normal(size=sides), 3 / step) * 0.25
    body = away < radius * (1 - 0.5 * (y / length) ** 2 + wobble)
    body &= np.abs(y) < length
    cut = generator.uniform(-0.05, 0.05)
    mask = np.where(body, np.where(y < cut, 1, 2), 0).astype(np.uint8)
    grey = np.array(_GREYS)[mask] + 0.5 * ndimage.gaussian_filter(
        generator.normal(size=sides), 2 / step
    )
    grey = ndimage.gaussian_filter(grey, 0.6 / step) + generator.normal(0, 0.06, sides)
    scale = np.exp(generator.uniform(np.log(140), np.log(3000)))
    return (np.maximum(grey, 0) * scale)[..., None].astype(np.float32), mask


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

    Parameters
    ----------
    sites, cases, test
        As for :func:`feda3i.synthetic.sets.synthetic_skin`.
    size
        About how many voxels the longest side has, 24 or more.
    thick
        Height of a slice, in millimetres; rows and columns are 1 mm apart.
    seed
        Case ``i`` is drawn from ``rng(seed, "synthetic-volumes", "train", i)``, or ``"test"``.

    >>> synthetic_volumes(sites=2, cases=1, test=1, size=24).train.is_ragged
    True
    """
    least = {"sites": (sites, 1), "cases": (cases, 1), "test": (test, 1), "size": (size, SMALLEST)}
    for option, (value, smallest) in least.items():
        if value < smallest:
            raise RecipeError(f"{NAME}: expected {option} >= {smallest}, found {value}")
    if not 0.1 <= thick <= 20:
        raise RecipeError(f"{NAME}: expected thick from 0.1 to 20 mm, found {thick}")
    digits = max(2, len(str(sites)))
    owned = np.arange(sites * cases).reshape(sites, cases)
    return Federation(
        train=_draw("train", sites * cases, size, thick, seed),
        sites={f"site-{k + 1:0{digits}d}": index for k, index in enumerate(owned)},
        test=_draw("test", test, size, thick, seed),
        classes=CLASSES,
        notes={"made": NAME, "seed": seed, "licence": "synthetic, no restrictions"},
    )


def _draw(part: str, count: int, size: int, thick: float, seed: int) -> Cases:
    drawn = [volume_case(rng(seed, NAME, part, i), size, thick) for i in range(count)]
    return Cases(
        ids=tuple(f"{NAME}-{part}-{i:05d}" for i in range(count)),
        images=stacked([image for image, _ in drawn]),
        masks=stacked([mask for _, mask in drawn]),
        spacing=np.tile((thick, 1.0, 1.0), (count, 1)),
    )
