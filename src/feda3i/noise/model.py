"""What every noise model shares: the call, the checks, the rule for label maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Protocol, Self, get_type_hints, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from feda3i.errors import DataError, RecipeError, check_option, shown
from feda3i.geometry import Binary, label_components, signed_distance
from feda3i.seeding import Draws, generator

Mask = NDArray[Any]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, le=1)]

MOST_CLASSES = 64
SIDE = 256  # pixels: the image side at which the paper's mu and sigma are given
MOST_MOVED = 30.0  # pixels at 256 by which a border moves at most


@runtime_checkable
class NoiseModel(Protocol):
    """Anything that turns a clean mask into a noisy one, with its draws from ``rng`` only."""

    def __call__(self, mask: Mask, rng: np.random.Generator) -> Mask:
        """Return a noisy mask of the same shape and type."""
        ...


class NoiseWarning(UserWarning):
    """A noisy mask lost its object, as the published algorithm can."""


class Checked:
    """Base of dataclasses whose values must be as their annotations say."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, adapter in _adapters(kind).items():
            value = getattr(self, name)
            try:
                adapter.validate_python(value)
            except ValidationError as error:
                problem = error.errors()[0]["msg"].lower()
                raise RecipeError(f"{name}: {problem}, found {shown(value)}") from None


@cache
def _adapters(kind: Any) -> dict[str, TypeAdapter[Any]]:
    strict, hints = ConfigDict(strict=True), get_type_hints(kind, include_extras=True)
    return {one.name: TypeAdapter(hints[one.name], config=strict) for one in fields(kind)}


@dataclass(frozen=True)
class Annotator(Checked):
    """How one site draws: C(mu, sigma) of the paper.

    mu and sigma of the distance from the clean contour are in pixels of the site's images, positive
    outside; ``scale`` is the size of these images / 256.
    """

    mu: Number
    sigma: NotNegative
    scale: Positive = 1.0

    def scaled(self, factor: float) -> Annotator:
        """Return the same annotator for images ``factor`` times the size."""
        return Annotator(self.mu * factor, self.sigma * factor, self.scale * factor)


class NoiseOptions(Checked):
    """Base of the noise models: dataclasses with what an annotator gives and a recipe sets."""

    OPTIONS: ClassVar[tuple[str, ...]] = ()
    """Fields that a recipe may set."""

    @classmethod
    def for_annotator(cls, annotator: Annotator, **options: Any) -> Self:
        """Return the noise of an annotator, with the options of a recipe."""
        for name in options:
            check_option(cls.__name__, name, cls.OPTIONS)
        return cls(**cls.fields_of(annotator), **options)

    @classmethod
    def fields_of(cls, annotator: Annotator) -> dict[str, float]:
        """Return the fields that an annotator gives; none for noise with rates of its own."""
        return {}


@dataclass(frozen=True)
class BorderNoise(NoiseOptions):
    """Base of C(mu, sigma): borders move by mu on average, and never farther than ``clip``."""

    mu: Number
    sigma: NotNegative
    scale: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if abs(self.mu) > self.clip:
            most = f"{self.clip:g} pixels ({MOST_MOVED:g} at 256)"
            raise RecipeError(f"mu: expected at most {most}, found {self.mu:g}")

    @property
    def clip(self) -> float:
        """Largest distance that the border moves, in pixels."""
        return MOST_MOVED * self.scale

    @classmethod
    def fields_of(cls, annotator: Annotator) -> dict[str, float]:
        """Return mu, sigma and scale."""
        return asdict(annotator)


def check_mask(mask: Mask, dimensions: tuple[int, ...] = (2, 3)) -> None:
    """Raise DataError unless this is a mask of bool or whole numbers with these dimensions."""
    if not isinstance(mask, np.ndarray) or mask.dtype.kind not in "bui":
        found = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
        hint = "for probabilities use (mask > 0.5)"
        raise DataError(f"expected a mask array of bool or whole numbers, found {found}; {hint}")
    if mask.ndim not in dimensions or mask.size == 0:
        wanted = " or ".join(f"{d}-D" for d in dimensions)
        hint = "; use SignedDistanceEvolution for volumes" if mask.ndim == 3 else ""
        raise DataError(f"expected a {wanted} mask with pixels, found shape {mask.shape}{hint}")


def classes_of(mask: Mask) -> list[int]:
    """Return the foreground classes of a mask in ascending order."""
    highest = int(mask.max())
    if highest <= 1 and (mask.dtype.kind != "i" or int(mask.min()) >= 0):
        return [1] if highest else []
    values = np.unique(mask)
    if values[0] < 0 or len(values) > MOST_CLASSES:
        raise DataError(
            f"expected classes 0, 1, 2, ... (at most {MOST_CLASSES}), found {len(values)} values "
            f"from {values[0]} to {values[-1]}; is this an image or a probability map?"
        )
    return [int(v) for v in values if v > 0]


def noise_by_class(
    mask: Mask,
    rng: Draws,
    change: Callable[[Binary, np.random.Generator], Binary],
    dimensions: tuple[int, ...] = (2, 3),
    is_nested: bool = False,
) -> Mask:
    """Apply a change of C-contiguous binary masks (0, 1) to each class of a label map in turn.

    Each class is changed from its own clean region; where two overlap the higher value wins (a
    structure inside another usually has the higher one). ``is_nested``: a hole of a class that
    holds higher classes alone is not a hole, so that no background opens between two that shrink.
    """
    check_mask(mask, dimensions)
    classes, rng = classes_of(mask), generator(rng)
    if classes == [1] and mask.dtype.itemsize == 1:
        bits = np.ascontiguousarray(mask).view(np.uint8)
        return change(bits, rng).view(mask.dtype)
    noisy = np.zeros_like(mask)
    for value in classes:
        region = np.ascontiguousarray(mask == value).view(np.uint8)
        if is_nested:
            region |= _nested(mask, region, value)
        noisy[change(region, rng) != 0] = value
    return noisy


def _nested(mask: Mask, region: Binary, value: int) -> Binary:
    """Return the holes of a class's region in which there are higher classes and nothing else."""
    # The background is face-connected where the foreground is connected by corners.
    openings, count = label_components(1 - region, is_diagonal=False)
    lowest = np.full(count + 1, np.iinfo(np.int64).max)
    np.minimum.at(lowest, openings.reshape(-1), mask.reshape(-1).astype(np.int64))
    for axis in range(mask.ndim):  # what reaches the frame is not a hole
        for end in (0, -1):
            lowest[np.unique(np.take(openings, end, axis))] = 0
    return (lowest > value)[openings].view(np.uint8)


def core_of(mask: Binary, spacing: Sequence[float] | None = None) -> Binary:
    """Return the innermost pixels of an object, within one pixel of its greatest depth."""
    depth = -signed_distance(mask, spacing)
    if not np.isfinite(depth).all():
        return mask.copy()
    is_deep: NDArray[np.bool_] = (depth > 0) & (depth >= depth.max() - 1.0)
    return is_deep.view(np.uint8)
