"""How hard a warmed-up model finds a site's masks, just inside and just outside their contour.

A mask drawn too large holds background within its contour, where the model disagrees: a large inner
loss. A mask drawn too small leaves object outside: a large outer loss. Two averages per class are
all that leaves a site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import PlainSerializer, PlainValidator
from pydantic.dataclasses import dataclass

from feda3i.errors import DataError
from feda3i.quality.numbers import Floats, Plain
from feda3i.quality.objects import Counts, count_logits
from feda3i.quality.offset import contour_offset, site_offset
from feda3i.quality.regions import boundary_regions

if TYPE_CHECKING:
    from torch import Tensor

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

    q: Floats
    """``(class, 2)``: mean over cases of the mean loss in the band (Eq. 3, 4)."""
    cases: Integers
    """``(class,)`` number of cases with a contour. No such case: ``NaN`` above."""
    offset: Floats | None = None
    """``(class, 2)``: how far the site draws outside the model's contour, in pixels, and the
    standard error of that; ``None`` if it was not asked for."""
    edge: Floats | None = None
    """``(class, 2)``: the same outside the border that its images show (``measure_edges``); ``NaN``
    where that cannot be told."""
    objects: Sent | None = None
    """Objects that are missing, extra or swapped; ``None`` if it was not asked for."""


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
    if values.shape != drawn.shape:
        raise DataError(
            f"expected logits and mask of one shape, found {values.shape} and {drawn.shape}"
        )
    inner, outer = boundary_regions(drawn, spacing)
    if not inner.any():
        return float("nan"), float("nan")
    return _mean_softplus(-values[inner]), _mean_softplus(values[outer])


def survey_site(
    batches: Iterable[tuple[ArrayLike | Tensor, ArrayLike | Tensor]],
    *,
    classes: int = 1,
    offsets: bool = False,
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
    offsets
        Also measure how far the masks lie outside the model's contour, and count objects.
    spacing
        ``(case, dimension)`` size of a pixel along each axis, for volumes of thick slices; ``None``
        if all sides are equal.
    """
    sizes = None if spacing is None else np.asarray(spacing, dtype=np.float64)
    away: list[list[float]] = [[] for _ in range(classes)]
    sums, cases = np.zeros((classes, 2)), np.zeros(classes, dtype=np.int64)
    objects, position = Counts(), 0
    for logits, masks in batches:
        values, drawn = _as_logits(logits), _as_array(masks)
        expected = (len(drawn), classes, *drawn.shape[1:])
        if values.shape != expected:
            raise DataError(
                f"expected logits (case, class, *space) {expected}, found {values.shape}"
            )
        for one, given in zip(values, drawn, strict=True):
            voxel = None if sizes is None else sizes[position].tolist()
            position += 1
            if offsets:
                objects += count_logits(given, one)
            for k in range(classes):
                own = given == k + 1
                if not own.any() or own.all():
                    continue
                sums[k] += learning_difficulty(one[k], own, voxel)
                cases[k] += 1
                if offsets:
                    away[k].append(contour_offset(own, one[k] > 0, voxel))
    q = np.where(cases[:, None] > 0, sums / np.maximum(cases, 1)[:, None], np.nan)
    if not offsets:
        return SiteSurvey(q, cases)
    return SiteSurvey(q, cases, np.stack([site_offset(each) for each in away]), objects=objects)


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
