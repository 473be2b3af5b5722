"""How hard a warmed-up model finds a site's masks, just inside and just outside their contour.

A mask drawn too large holds background within its contour, where the model disagrees: a large inner
loss. A mask drawn too small leaves object outside: a large outer loss. Two averages per class are
all that leaves a site.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i.errors import DataError
from feda3i.quality.numbers import FloatArray, from_json, to_json
from feda3i.quality.objects import Counts, count_logits
from feda3i.quality.offset import contour_offset, site_offset
from feda3i.quality.regions import Regions, find_regions

if TYPE_CHECKING:
    from torch import Tensor

RegionsCache = MutableMapping[tuple[int, int], "Regions | None"]


@dataclass(frozen=True)
class SiteSurvey:
    """What one site found: inner and outer difficulty per class."""

    q: FloatArray
    """``(class, 2)``: mean over cases of the mean loss in the band (Eq. 3, 4)."""
    cases: NDArray[np.int64]
    """``(class,)`` number of cases with a contour. No such case: ``NaN`` above."""
    offset: FloatArray | None = None
    """``(class, 2)``: how far the site draws outside the model's contour, in pixels, and the
    standard error of that; ``None`` if it was not asked for."""
    edge: FloatArray | None = None
    """``(class, 2)``: the same outside the border that its images show (``measure_edges``); ``NaN``
    where that cannot be told."""
    objects: Counts | None = None
    """Objects that are missing, extra or swapped; ``None`` if it was not asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists for JSON, ``None`` for what is undefined."""
        return {
            "q": to_json(self.q),
            "cases": self.cases.tolist(),
            **({} if self.offset is None else {"offset": to_json(self.offset)}),
            **({} if self.edge is None else {"edge": to_json(self.edge)}),
            **({} if self.objects is None else {"objects": self.objects.sent()}),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the survey that ``to_dict`` wrote."""
        return cls(
            q=from_json(data["q"]),
            cases=np.asarray(data["cases"], dtype=np.int64),
            offset=from_json(data["offset"]) if "offset" in data else None,
            edge=from_json(data["edge"]) if "edge" in data else None,
            objects=Counts.received(data["objects"]) if "objects" in data else None,
        )


def learning_difficulty(
    logits: ArrayLike | Tensor,
    mask: ArrayLike,
    spacing: Sequence[float] | None = None,
) -> tuple[float, float]:
    """Return the inner and the outer difficulty of one case, from logits.

    Parameters
    ----------
    logits
        ``(*space)``, of the class in question; array or tensor.
    mask
        ``(*space)``, not zero where drawn.
    spacing
        Size of a pixel along each axis; ``None`` if all are equal.

    Returns
    -------
    inner, outer
        Both ``NaN`` for an empty or full mask, which has no contour.

    >>> inner, outer = learning_difficulty(np.full((4, 4), 9.0), np.eye(4))
    >>> inner < 0.001 < 9 < outer  # a model that sees the object everywhere
    True
    """
    drawn = np.asarray(mask) != 0
    values = _as_logits(logits)
    if values.shape != drawn.shape:
        raise DataError(
            f"expected logits and mask of one shape, found {values.shape} and {drawn.shape}"
        )
    regions = find_regions(drawn, spacing)
    if regions is None:
        return float("nan"), float("nan")
    inner, outer = _difficulty(values, regions).tolist()
    return inner, outer


def survey_site(
    batches: Iterable[tuple[ArrayLike | Tensor, ArrayLike | Tensor]],
    *,
    classes: int = 1,
    fewest_cases: int = 1,
    cache: RegionsCache | None = None,
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
    fewest_cases
        With fewer usable cases a class counts as undefined, so that no average speaks for so few.
    cache
        Filled with the bands of each (position, class) and read the next time. Use one for one
        fixed set of masks in one order.
    offsets
        Also measure how far the masks lie outside the model's contour, and count objects.
    spacing
        ``(case, dimension)`` size of a pixel along each axis, for volumes of thick slices; ``None``
        if all sides are equal.
    """
    sizes = None if spacing is None else np.asarray(spacing, dtype=np.float64)
    cache = {} if cache is None else cache
    away: list[list[float]] = [[] for _ in range(classes)]
    sums = np.zeros((classes, 2))
    cases = np.zeros(classes, dtype=np.int64)
    objects = Counts()
    position = 0
    for logits, masks in batches:
        values, drawn = _as_logits(logits), _as_array(masks)
        expected = (len(drawn), classes, *drawn.shape[1:])
        if values.shape != expected:
            raise DataError(
                f"expected logits (case, class, *space) {expected}, found {values.shape}"
            )
        for one, given in zip(values, drawn, strict=True):
            objects += count_logits(given, one) if offsets else Counts()
            voxel = None if sizes is None else sizes[position].tolist()
            for k in range(classes):
                if (position, k) not in cache:
                    cache[position, k] = find_regions(given == k + 1, voxel)
                regions = cache[position, k]
                if regions is not None:
                    sums[k] += _difficulty(one[k], regions)
                    cases[k] += 1
                    if offsets:
                        away[k].append(contour_offset(given == k + 1, one[k] > 0, voxel))
            position += 1
    usable = cases >= max(fewest_cases, 1)
    q = np.where(usable[:, None], sums / np.maximum(cases, 1)[:, None], np.nan)
    offset = np.stack([site_offset(each, fewest_cases) for each in away]) if offsets else None
    return SiteSurvey(q, cases, offset, objects=objects if offsets else None)


def _difficulty(logits: NDArray[np.floating], regions: Regions) -> FloatArray:
    """Return ``(side,)`` of one case and class; ``inf`` where the model overflowed."""
    if logits.shape != regions.shape:
        raise DataError(
            f"expected logits of shape {regions.shape} as cached, found {logits.shape}; "
            "was the cache made for other masks?"
        )
    values = logits[regions.window].reshape(-1)
    inner, outer = regions.unpack()
    sides = (-values[inner], values[outer])  # bce(z, 1) = softplus(-z), bce(z, 0) = softplus(z)
    return np.array([_softplus_sum(side) / side.size for side in sides])


def _softplus_sum(z: NDArray[np.floating]) -> float:
    """Return the sum of log(1 + exp(z)), finite for every finite z."""
    tail = np.abs(z)
    np.negative(tail, out=tail)
    np.exp(tail, out=tail)
    np.log1p(tail, out=tail)
    tail += np.maximum(z, 0)
    return float(tail.sum(dtype=np.float64))


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
