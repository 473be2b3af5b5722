"""Axes of a plot: from values to places on the page, ticks, frame and labels, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from feda3i.report.html.markup import Html, join, tag

Span = tuple[float, float]
STEPS = (1, 2, 2.5, 5, 10)
WHOLE = (1, 2, 5, 10)
"""Steps between ticks, in powers of ten; the second for whole numbers."""


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale."""

    values: Span  # lowest and highest value
    places: Span
    """Where they stand, in units of the drawing; the first may be larger (an upward axis)."""
    is_log: bool = False  # logarithmic; values must then be above 0

    def __call__(self, value: float) -> float:
        """Return the place of a value; one outside stands at the nearer end."""
        low, high = (self._turn(v) for v in self.values)
        inside = min(max(value, self.values[0]), self.values[1])
        part = (self._turn(inside) - low) / ((high - low) or 1.0)
        return self.places[0] + part * (self.places[1] - self.places[0])

    def _turn(self, value: float) -> float:
        return math.log(value) if self.is_log else value

    def ticks(self, wanted: int = 5, steps: Sequence[float] = STEPS) -> list[float]:
        """Return round values within the axis."""
        if self.is_log and self.values[1] / self.values[0] > 8:
            return _log_ticks(*self.values)
        return _ticks(*self.values, wanted, steps)


def _ticks(low: float, high: float, wanted: int, steps: Sequence[float]) -> list[float]:
    rough = (high - low) / max(wanted, 1) or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in steps if s * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    steps = (1.0, 2.0, 5.0) if high / low < 500 else (1.0,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [v for p in powers for s in steps if low <= (v := s * 10.0**p) <= high]


def room(values: Iterable[float], is_log: bool = False) -> Span:
    """Return a span that holds all values with a margin; a default one if there are none.

    >>> room([1.0, 2.0])
    (0.94, 2.06)
    """
    known = [v for v in values if math.isfinite(v) and (v > 0 or not is_log)]
    low, high = (min(known), max(known)) if known else (0.1, 1.0)
    if is_log:
        factor = max(1.35, (high / low) ** 0.15)
        return low / factor, high * factor
    gap = (high - low) or abs(high) * 0.1 or 1.0
    return low - 0.06 * gap, high + 0.06 * gap


def frame(x: Axis, y: Axis, x_label: str, y_label: str, whole_x: bool = False) -> Html:
    """Return grid lines, numbers and labels of a plot."""
    left, right, bottom, top = *x.places, *y.places
    parts = []
    for value in y.ticks():
        parts.append(tag("line", x1=left, x2=right, y1=y(value), y2=y(value), class_="grid"))
        parts.append(_word(f"{value:g}", left - 8, y(value) + 4, "end"))
    for value in [v for v in x.ticks(7, WHOLE) if v == int(v)] if whole_x else x.ticks(6):
        parts.append(tag("line", x1=x(value), x2=x(value), y1=bottom, y2=bottom + 5, class_="tick"))
        parts.append(_word(f"{value:g}", x(value), bottom + 20, "middle"))
    parts.append(tag("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="tick"))
    middle = (bottom + top) / 2
    parts.append(_word(x_label, (left + right) / 2, bottom + 41, "middle", class_="label"))
    turned = f"rotate(-90 13 {middle:.1f})"
    parts.append(_word(y_label, 13, middle, "middle", class_="label", transform=turned))
    return tag("g", join(parts), aria_hidden="true")


def _word(words: str, x: float, y: float, anchor: str, **more: object) -> Html:
    return tag("text", words, x=float(x), y=float(y), text_anchor=anchor, **more)
