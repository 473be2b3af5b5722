"""Noise beyond the contour: objects left out, objects made up, objects given another class.

An object is an 8-connected part of one class with at least 15 pixels. All uniform numbers are drawn
in a fixed order, first for the case, then for its objects by class and place, used or not: a larger
rate only adds errors.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from feda3i.errors import DataError
from feda3i.geometry import label_components
from feda3i.noise.model import Mask, NoiseOptions, Rate, check_mask, classes_of
from feda3i.seeding import Draws, generator

SMALLEST = 15  # pixels of an object; specks are no decision of an annotator
PLACES = 20  # tried for an object that is made up
GAP = 5  # pixels at least between it and what is there
IN_FRAME = 0.8  # share of it that must be

Region = NDArray[np.bool_]


def objects_of(mask: Mask) -> Iterator[tuple[int, Region]]:
    """Yield class and region of each object, by class and then in scan order."""
    for value in classes_of(mask):
        labels, count = label_components((mask == value).view(np.uint8))
        for label in range(1, count + 1):
            region = labels == label
            if region.sum() >= SMALLEST:
                yield value, region


@dataclass(frozen=True)
class Omission(NoiseOptions):
    """Leave out each object with rate ``objects``, and empty whole cases with rate ``cases``.

    The largest object of a case that is not emptied stays if all others are left out.

    >>> mask = np.zeros((40, 40), np.uint8); mask[2:12, 2:12] = 1; mask[20:30, 20:30] = 1
    >>> int(Omission(objects=1.0, cases=0.0)(mask, np.random.default_rng(0)).sum())
    100
    """

    OPTIONS = ("objects", "cases")

    objects: Rate = 0.4
    """Probability that an object is changed."""
    cases: Rate = 0.1
    """Probability that a case is changed as a whole."""

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the mask without the objects that were overlooked."""
        check_mask(mask)
        rng = generator(rng)
        is_emptied = rng.random() < self.cases
        found = [region for _, region in objects_of(mask)]
        is_missed = rng.random(len(found)) < self.objects
        if is_emptied:
            return np.zeros_like(mask)
        if is_missed.all() and found:
            is_missed[int(np.argmax([region.sum() for region in found]))] = False
        noisy = mask.copy()
        for region, missed in zip(found, is_missed, strict=True):
            if missed:
                noisy[region] = 0
        return noisy


@dataclass(frozen=True)
class Addition(NoiseOptions):
    """Make up 1 to ``most`` objects with rate ``cases``: copies of others, turned and mirrored."""

    OPTIONS = ("cases", "most")

    cases: Rate = 0.3
    """Probability that a case is changed as a whole."""
    most: Annotated[int, Field(ge=1, le=100)] = 2
    """Largest number of objects that are made up in a case."""

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the mask with what is not there; as it is where nothing fits."""
        check_mask(mask, dimensions=(2,))
        rng = generator(rng)
        is_hit, count = rng.random() < self.cases, int(rng.integers(1, self.most + 1))
        known = list(objects_of(mask))
        noisy = mask.copy()
        for _ in range(count if is_hit and known else 0):
            value, region = known[int(rng.integers(len(known)))]
            _place(noisy, value, _turned(region, rng), rng)
        return noisy


def _turned(region: Region, rng: np.random.Generator) -> Region:
    """Return an object in its tight box, turned by quarters and perhaps mirrored."""
    rows, cols = np.nonzero(region)
    tight = region[rows.min() : rows.max() + 1, cols.min() : cols.max() + 1]
    turned = np.rot90(tight, int(rng.integers(4)))
    return turned[:, ::-1] if rng.random() < 0.5 else turned


def _place(mask: Mask, value: int, shape: Region, rng: np.random.Generator) -> None:
    """Draw an object into a mask where nothing is near, if one of a few places is free."""
    rows, cols = np.nonzero(shape)
    for down, right in rng.integers(0, mask.shape, size=(PLACES, 2)):
        at = rows + down - shape.shape[0] // 2, cols + right - shape.shape[1] // 2
        seen = (at[0] >= 0) & (at[0] < mask.shape[0]) & (at[1] >= 0) & (at[1] < mask.shape[1])
        if seen.mean() < IN_FRAME:
            continue
        down_to, right_to = (max(0, int(a.min()) - GAP) for a in at)
        around = mask[down_to : at[0].max() + GAP + 1, right_to : at[1].max() + GAP + 1]
        if not around.any():
            mask[at[0][seen], at[1][seen]] = value
            return


@dataclass(frozen=True)
class Swap(NoiseOptions):
    """Give each object with rate ``objects`` another class, all others alike."""

    OPTIONS = ("objects", "classes")

    objects: Rate = 0.3
    """Probability that an object is changed."""
    classes: Annotated[int, Field(ge=2, le=255)] = 2
    """Foreground classes to choose from; swap needs two."""

    def __call__(self, mask: Mask, rng: Draws) -> Mask:
        """Return the mask with the foreground as it is and some classes exchanged."""
        check_mask(mask)
        if classes_of(mask)[-1:] > [self.classes]:
            raise DataError(f"expected classes up to {self.classes}, found {classes_of(mask)[-1]}")
        rng, noisy = generator(rng), mask.copy()
        for value, region in objects_of(mask):
            hit, other = rng.random(), int(rng.integers(1, self.classes))
            if hit < self.objects:
                noisy[region] = other + (other >= value)
        return noisy
