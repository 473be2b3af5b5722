"""Synthetic volumes: a bent body of two parts in a textured surrounding, like a hippocampus in MR.

Sizes and scales of intensity differ from case to case, as they do between scanners.
"""

import numpy as np
from numpy.typing import NDArray

CLASSES = ("anterior", "posterior")
SMALLEST_VOLUME = 24
_SIDES = (0.7, 1.0, 0.7)  # of the longest side: slices, rows, columns
_GREYS = (0.45, 0.75, 0.65)  # of background and the two parts


def volume_case(
    generator: np.random.Generator, size: int, thick: float = 1.0
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return an image ``(slice, row, column, 1)`` and a mask with the values 0, 1 and 2.

    It has about ``size`` rows, its other sides are shorter; a slice is ``thick`` pixels high.

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
    texture = ndimage.gaussian_filter(generator.normal(size=sides), 2 / step)
    grey = np.array(_GREYS)[mask] + 0.5 * texture
    grey = ndimage.gaussian_filter(grey, 0.6 / step) + generator.normal(0, 0.06, sides)
    scale = np.exp(generator.uniform(np.log(140), np.log(3000)))
    return (np.maximum(grey, 0) * scale)[..., None].astype(np.float32), mask
