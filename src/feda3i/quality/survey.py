"""How hard a warmed-up model finds a site's masks, just inside and just outside their contour.

A mask drawn too large holds background within its contour, where the model disagrees: a large inner
loss. A mask drawn too small leaves object outside: a large outer loss. Two averages per class are
all that leaves a site.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import PlainSerializer, PlainValidator
from pydantic.dataclasses import dataclass

from feda3i.errors import DataError
from feda3i.geometry import box_around, depth, relative_sizes
from feda3i.quality.numbers import Floats, Plain
from feda3i.quality.objects import Counts, count_logits

if TYPE_CHECKING:
    from torch import Tensor

Mask = NDArray[np.bool_]
Integers = Annotated[
    NDArray[np.int64],
    PlainValidator(lambda data: np.asarray(data, dtype=np.int64)),
    PlainSerializer(lambda array: array.tolist()),
]
Sent = Annotated[
    Counts,
    PlainValidator(lambda data: data if isinstance(data, Counts) else Counts.received(data)),
    PlainSerializer(Counts.sent),
]


@dataclass(frozen=True)
class SiteSurvey(Plain):
    """What one site found: inner and outer difficulty per class."""

    q: Floats  # ``(class, 2)``: mean over cases of the mean loss in the band (Eq. 3, 4)
    cases: Integers  # ``(class,)`` number of cases with a contour; none: ``NaN`` above
    objects: Sent | None = None  # those that are missing, extra or swapped, if asked for


def boundary_regions(mask: ArrayLike, spacing: Sequence[float] | None = None) -> tuple[Mask, Mask]:
    """Return the inner and the outer band of a mask, boolean arrays of its shape.

    With d the exact Euclidean distance to the nearest pixel of the other kind and d* the smaller of
    its two maxima (inside and outside), a band holds the pixels of its side with d <= d*. Usually
    the inner band is the whole object and the outer one a ring of the same width. Distances are in
    pixels, in any number of dimensions, or in the unit of ``spacing``, the size of a pixel along
    each axis. An empty or full mask has no contour: both bands are empty.

    >>> inner, outer = boundary_regions([[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
    >>> outer.astype(int).tolist()
    [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]]
    """
    drawn = np.asarray(mask) != 0
    inner, outer = np.zeros_like(drawn), np.zeros_like(drawn)
    if not drawn.any() or drawn.all():
        return inner, outer
    sizes = relative_sizes(spacing)
    # One pixel around the object holds the nearest background pixel of each of its pixels.
    near = box_around(drawn, margin=1)
    inside = _depth(drawn[near], sizes)
    reach = float(inside.max())
    window = box_around(drawn, [math.ceil(reach / size) for size in sizes or [1.0] * drawn.ndim])
    outside = _depth(~drawn[window], sizes)
    if outside.shape == drawn.shape:  # otherwise some pixel beyond the window is farther than reach
        reach = min(reach, float(outside.max()))
    # Between squares of distances, which are whole numbers: single-precision roots are not exact.
    limit = math.sqrt(round(reach**2) + 0.5) if sizes is None else reach * (1 + 1e-9)
    inner[near] = drawn[near] & (inside <= limit)
    outer[window] = ~drawn[window] & (outside <= limit)
    return inner, outer


def _depth(inside: Mask, sizes: Sequence[float] | None) -> NDArray[np.floating]:
    if sizes is None:
        return depth(inside)
    from scipy import ndimage

    return np.asarray(ndimage.distance_transform_edt(inside, sampling=sizes))


def learning_difficulty(
    logits: ArrayLike | Tensor, mask: ArrayLike, spacing: Sequence[float] | None = None
) -> tuple[float, float]:
    """Return the inner and the outer difficulty of one case, from the logits of one class.

    Both are ``NaN`` for an empty or full mask, which has no contour.

    >>> inner, outer = learning_difficulty(np.full((4, 4), 9.0), np.eye(4))
    >>> inner < 0.001 < 9 < outer  # a model that sees the object everywhere
    True
    """
    values, drawn = _as_logits(logits), np.asarray(mask)
    inner, outer = boundary_regions(drawn, spacing)
    if not inner.any():
        return math.nan, math.nan
    return _mean_softplus(-values[inner]), _mean_softplus(values[outer])


def survey_site(
    batches: Iterable[tuple[ArrayLike | Tensor, ArrayLike | Tensor]],
    *,
    classes: int = 1,
    objects: bool = False,
    spacing: ArrayLike | None = None,
) -> SiteSurvey:
    """Return a site's difficulty per class, from one pass over its cases.

    Parameters
    ----------
    batches
        Pairs of logits ``(case, class, *space)`` of a model in eval mode and given masks
        ``(case, *space)`` with value k for class k; a generator keeps one batch in memory.
    classes
        Number of foreground classes.
    objects
        Also count objects that are missing, extra or swapped.
    spacing
        ``(case, dimension)`` size of a pixel along each axis, for volumes of thick slices; ``None``
        if all sides are equal.
    """
    sizes = None if spacing is None else np.asarray(spacing, dtype=np.float64)
    sums, cases = np.zeros((classes, 2)), np.zeros(classes, dtype=np.int64)
    counts, position = Counts(), 0
    for logits, masks in batches:
        values, drawn = _as_logits(logits), _as_array(masks)
        shape = (len(drawn), classes, *drawn.shape[1:])
        if values.shape != shape:
            raise DataError(f"expected logits (case, class, *space) {shape}, found {values.shape}")
        for one, given in zip(values, drawn, strict=True):
            voxel = None if sizes is None else sizes[position].tolist()
            position += 1
            if objects:
                counts += count_logits(given, one)
            for k in range(classes):
                own = given == k + 1
                if own.any() and not own.all():
                    sums[k] += learning_difficulty(one[k], own, voxel)
                    cases[k] += 1
    q = np.where(cases[:, None] > 0, sums / np.maximum(cases, 1)[:, None], np.nan)
    return SiteSurvey(q, cases, counts if objects else None)


def _mean_softplus(z: NDArray[np.floating]) -> float:
    """Return the mean of log(1 + exp(z)), finite for every finite z.

    The cross-entropy of a logit z is that of -z where the mask is 1, and of z where it is 0.
    """
    tail = np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0)
    return float(tail.sum(dtype=np.float64)) / z.size


def _as_array(values: Any) -> NDArray[Any]:
    """Return an array of a tensor (on any device) or of anything array-like."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def _as_logits(values: Any) -> NDArray[np.floating]:
    # torch's bfloat16 has no counterpart in NumPy, and half precision would lose the sums.
    if hasattr(values, "detach"):
        values = values.detach()
        values = values if values.dtype.itemsize >= 4 else values.float()
    array = _as_array(values)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
