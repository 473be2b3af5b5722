"""Intensities: how the values of a case become what a network sees, wherever it looks at one.

Networks take images on the scale of bytes, so every rule ends there: 128 is the middle and 64 one
standard deviation. Each rule is a line per case and channel, ``scale * value + shift``, perhaps
cut off at both ends, found from the whole case: a patch is treated as the case it comes from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import RecipeError, check_choice

if TYPE_CHECKING:
    from torch import Tensor

Rule = Literal["none", "zscore", "percentiles", "window", "constant"]
Over = Literal["all", "nonzero"]
RULES: tuple[Rule, ...] = ("none", "zscore", "percentiles", "window", "constant")
MIDDLE, SPREAD, TOP = 128.0, 64.0, 255.0
_MEANING = {
    "percentiles": "two percentiles, low and high, from 0 to 100",
    "window": "the lowest and the highest value",
    "constant": "mean and standard deviation of the data set, the latter above 0",
}


@dataclass(frozen=True)
class Line:
    """What happens to the values of one case, by channel; ``cut``: keep to 0..255 afterwards."""

    scale: NDArray[np.float64]
    shift: NDArray[np.float64]
    low: NDArray[np.float64]
    """The lowest value of the case as it was: what surrounds it where a patch is larger."""
    cut: bool = False

    @property
    def fill(self) -> NDArray[np.float64]:
        """Return the lowest value as the network sees it."""
        seen = self.low * self.scale + self.shift
        return np.clip(seen, 0.0, TOP) if self.cut else seen


@dataclass(frozen=True)
class Normalise:
    """A rule with its numbers, as plain data.

    >>> Normalise("window", by=(0.0, 100.0))(np.array([[-5.0], [50.0], [100.0]])).tolist()
    [[0.0], [127.5], [255.0]]
    """

    name: Rule = "none"
    """``none``: values as they are. ``zscore``: mean 0 and standard deviation 1 of the case become
    128 and 64. ``percentiles``: two percentiles of the case become 0 and 255. ``window``: two given
    values do. ``constant``: a given mean and standard deviation of the data set become 128 and 64.
    """
    over: Over = "all"
    """Which voxels a case's mean or percentiles are of: ``all``, or those that are not ``nonzero``
    background; a case of zeros only counts with all its voxels."""
    by: tuple[float, float] | None = None  # numbers of ``percentiles``, ``window``, ``constant``

    def __post_init__(self) -> None:
        check_choice("data.normalise", self.name, RULES)
        check_choice("data.normalise_over", self.over, ("all", "nonzero"))
        if self.over != "all" and self.name not in ("zscore", "percentiles"):
            raise RecipeError(f"data.normalise_over has no effect with data.normalise={self.name}")
        if self.name == "percentiles" and self.by is None:
            object.__setattr__(self, "by", (0.5, 99.5))
        if self.name not in _MEANING and self.by is not None:
            raise RecipeError(f"data.normalise_by has no effect with data.normalise={self.name}")
        if self.name not in _MEANING:
            return
        first, second = self.by or (math.nan, math.nan)
        fits = {
            "percentiles": 0 <= first < second <= 100,
            "window": -math.inf < first < second < math.inf,
            "constant": math.isfinite(first) and 0 < second < math.inf,
        }
        if not fits[self.name]:
            raise RecipeError(f"data.normalise_by: expected {_MEANING[self.name]}, found {self.by}")

    @property
    def is_none(self) -> bool:
        """Return whether values are left as they are."""
        return self.name == "none"

    def line(self, image: NDArray[Any]) -> Line:
        """Return the line of a case ``(*space, channel)``."""
        columns = image.reshape(-1, image.shape[-1])
        rows = [self._of(columns[:, c]) for c in range(image.shape[-1])]
        scale, shift, low = np.array(rows, np.float64).T
        return Line(scale, shift, low, self.name in ("percentiles", "window"))

    def _of(self, values: NDArray[Any]) -> tuple[float, float, float]:
        """Return scale, shift and lowest value of one channel."""
        low = float(values.min())
        if self.name == "none":
            return 1.0, 0.0, low
        if self.over == "nonzero" and values.any():
            values = values[values != 0]
        if self.name in ("zscore", "constant"):
            found = values.mean(dtype=np.float64), values.std(dtype=np.float64)
            mean, sd = self.by if self.name == "constant" and self.by else map(float, found)
            scale = SPREAD / sd if sd > 0 else 0.0  # a case of one grey level has no contrast
            return scale, MIDDLE - scale * mean, low
        assert self.by is not None  # filled in above
        first, second = self.by
        if self.name == "percentiles":
            first, second = (float(v) for v in np.percentile(values, self.by))
        scale = TOP / (second - first) if second > first else 0.0
        return scale, -scale * first, low

    def __call__(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Return a case ``(*space, channel)`` as a network would see it."""
        line = self.line(image)
        values = image * line.scale + line.shift
        return (np.clip(values, 0.0, TOP) if line.cut else values).astype(np.float32)


NONE = Normalise()


def apply_lines(images: Tensor, lines: list[Line]) -> Tensor:
    """Return images ``(case, channel, *space)`` with each case's line applied."""
    import torch

    def column(values: list[NDArray[np.float64]]) -> Tensor:
        made = torch.from_numpy(np.stack(values)).to(images)
        return made.reshape(*made.shape, *[1] * (images.ndim - 2))

    out = images * column([one.scale for one in lines]) + column([one.shift for one in lines])
    return out.clamp_(0.0, TOP) if lines and lines[0].cut else out


def byte_picture(image: NDArray[Any], rule: Normalise) -> NDArray[np.uint8]:
    """Return a case as bytes to look at: normalised by the rule unless it has bytes already."""
    if image.dtype == np.uint8 and rule.is_none:
        return np.asarray(image, np.uint8)
    shown = rule if not rule.is_none else Normalise("percentiles")
    return np.clip(np.rint(shown(image)), 0, 255).astype(np.uint8)
