"""Axes of a plot: from values to places on the page, round ticks, and paths between places."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Span = tuple[float, float]
STEPS = (1, 2, 5, 10)  # steps between ticks, in powers of ten
Words = tuple[str, float, float, str]
"""Words of a drawing, their place, and whether they start, end or have their middle there."""
WIDTH, HEIGHT = 560, 350
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 12, 50


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale."""

    values: Span  # lowest and highest value
    places: Span
    """Where they stand, in units of the drawing; the first may be larger (an upward axis)."""
    is_log: bool = False  # logarithmic; values must then be above 0

    @property
    def first(self) -> float:
        """Return the place of the lowest value."""
        return self.places[0]

    @property
    def last(self) -> float:
        """Return the place of the highest value."""
        return self.places[1]

    def __call__(self, value: float) -> float:
        """Return the place of a value; one outside stands at the nearer end."""
        low, high = (self._turn(v) for v in self.values)
        inside = min(max(value, self.values[0]), self.values[1])
        part = (self._turn(inside) - low) / ((high - low) or 1.0)
        return self.first + part * (self.last - self.first)

    def _turn(self, value: float) -> float:
        return math.log(value) if self.is_log else value

    def ticks(self, wanted: int = 5) -> list[float]:
        """Return round values within the axis."""
        low, high = self.values
        if self.is_log and high / low > 8:
            steps = (1.0, 2.0, 5.0) if high / low < 500 else (1.0,)
            powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            return [v for p in powers for s in steps if low <= (v := s * 10.0**p) <= high]
        rough = (high - low) / max(wanted, 1) or 1.0
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(s * power for s in STEPS if s * power >= 0.7 * rough)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, last + 1)]

    def whole_ticks(self) -> list[float]:
        """Return whole numbers within the axis."""
        return [v for v in self.ticks(7) if v == int(v)]


def room(values: Iterable[float], is_log: bool = False) -> Span:
    """Return a span that holds all values with a margin; a default one if there are none."""
    known = [v for v in values if math.isfinite(v) and (v > 0 or not is_log)]
    low, high = (min(known), max(known)) if known else (0.1, 1.0)
    if is_log:
        factor = max(1.35, (high / low) ** 0.15)
        return low / factor, high * factor
    gap = (high - low) or abs(high) * 0.1 or 1.0
    return low - 0.06 * gap, high + 0.06 * gap


def plot_axes(
    x: Span, y: Span, width: float = WIDTH, height: float = HEIGHT, is_log: bool = False
) -> tuple[Axis, Axis]:
    """Return the axes of a drawing of this size, with room for labels at the left and below."""
    across, up = (LEFT, width - RIGHT), (height - BOTTOM, TOP)
    return Axis(x, across, is_log), Axis(y, up, is_log)


def path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """Return the path through points."""
    return "M" + "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points)


def outline_of(shape: str, x: float, y: float, size: float) -> str:
    """Return the path of a dot."""
    if shape == "circle":
        arc = f"a{size} {size} 0 1 0"
        return f"M{x - size:.1f} {y:.1f}{arc} {2 * size} 0{arc} {-2 * size} 0"
    if shape == "cross":
        s = size * 0.8
        return f"M{x - s:.1f} {y - s:.1f}l{2 * s} {2 * s}m0 {-2 * s}l{-2 * s} {2 * s}"
    sign = -1 if shape == "up" else 1
    side = f"l{1.1 * size:.1f} {-sign * 2 * size:.1f}"
    return f"M{x:.1f} {y + sign * 1.2 * size:.1f}{side}h{-2.2 * size:.1f}Z"


def names_beside(
    dots: Sequence[tuple[float, float, str]], others: Sequence[Words], x: Axis, y: Axis
) -> list[Words]:
    """Return names near their dots ``(x, y, name)``; one that would cover others is left out."""
    taken = [(a - 8, b - 8, a + 8, b + 8) for a, b, _ in dots]
    taken += [_box(*one) for one in others]
    found = []
    for a, b, words in dots:
        for dx, dy, anchor in (
            *((11, 4, "start"), (-11, 4, "end"), (0, -12, "middle"), (0, 21, "middle")),
            *((9, -9, "start"), (9, 17, "start"), (-9, -9, "end"), (-9, 17, "end")),
        ):
            box = _box(words, a + dx, b + dy, anchor)
            is_inside = x.first < box[0] and box[2] < x.last and y.last < box[1] < box[3] < y.first
            if is_inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found.append((words, a + dx, b + dy, anchor))
                break
    return found


def _box(words: str, x: float, y: float, anchor: str) -> tuple[float, float, float, float]:
    """Return the room that words take: as wide as they are in most fonts."""
    wide = 7.0 * len(words)
    left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
    return left, y - 11, left + wide, y + 3


def _overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
