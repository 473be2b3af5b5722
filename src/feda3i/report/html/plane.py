"""Points in a plane, each with its own tip, and outlines around groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from feda3i.report.html.axes import Axis, frame, room
from feda3i.report.html.charts import HEIGHT, WIDTH, colour, path, plot_axes, svg
from feda3i.report.html.markup import Html, tag

Shape = Literal["up", "down", "circle", "cross"]
TALL = 470
"""Height of a plane with its diagonal."""


@dataclass(frozen=True)
class Point:
    """One dot of a plane."""

    x: float
    y: float
    tip: str  # what hovering, focus and screen readers tell of it
    shape: Shape = "circle"
    series: int = 0  # number of its outline's colour
    fill: str = ""  # a colour such as ``#d55e00``; the outline's by default
    site: str = ""  # the site it stands for, for the filter of the page


@dataclass(frozen=True)
class Outline:
    """A closed line around points, such as an ellipse; drawn below them."""

    points: Sequence[tuple[float, float]]
    series: int


def plane(
    title: str,
    about: str,
    points: Sequence[Point],
    *,
    x_label: str,
    y_label: str,
    is_log: bool = False,
    has_diagonal: bool = False,
    from_zero: bool = False,
    is_wide: bool = False,
    outlines: Sequence[Outline] = (),
    words: Sequence[tuple[float, float, str]] = (),
) -> Html:
    """Return points in a plane, each with its own tip.

    Parameters
    ----------
    title, about
        What it shows, and what is to be seen.
    is_log
        Logarithmic axes.
    has_diagonal
        Draw the line of equal x and y, in a taller frame.
    from_zero
        No axis goes below 0, whatever room there is.
    is_wide
        As wide as the page.
    outlines
        Closed lines below the dots.
    words
        Remarks: x and y as parts 0..1 of the frame from lower left, text.
    """
    height = TALL if has_diagonal else HEIGHT
    width = 2 * WIDTH if is_wide else WIDTH
    around = [place for one in outlines for place in one.points]
    places = [*((point.x, point.y) for point in points), *around]
    spans = [room([place[axis] for place in places], is_log) for axis in (0, 1)]
    if from_zero:
        spans = [(max(low, 0.0), high) for low, high in spans]
    x, y = plot_axes(spans[0], spans[1], width, height, is_log)
    (left, right), (bottom, top) = x.places, y.places
    parts = [frame(x, y, x_label, y_label)]
    low, high = max(x.values[0], y.values[0]), min(x.values[1], y.values[1])
    if has_diagonal and low < high:
        parts.append(tag("path", d=path([(low, low), (high, high)], x, y), class_="mark"))
    parts += [_outline(one, x, y) for one in outlines]
    for across, up, remark in words:
        at = left + 10 + across * (right - left - 20), bottom - 10 - up * (bottom - top - 24)
        anchor = "end" if across > 0.66 else "middle" if across > 0.33 else "start"
        parts.append(tag("text", remark, x=at[0], y=at[1], text_anchor=anchor, class_="soft"))
    parts += [marked(point, x(point.x), y(point.y)) for point in points]
    whole = svg(title, about, *parts, width=width, height=height, role="group")
    return tag("div", whole, class_="scroll wide") if is_wide else whole


def _outline(one: Outline, x: Axis, y: Axis) -> Html:
    style = f"stroke:{colour(one.series)};fill:{colour(one.series)}"
    low = x.values[0] if x.is_log else -1e308, y.values[0] if y.is_log else -1e308
    inside = [(max(a, low[0]), max(b, low[1])) for a, b in one.points]
    return tag("path", d=path(inside, x, y) + "Z", class_="outline", style=style)


def dot(shape: Shape, x: float, y: float, size: float) -> str:
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


def marked(point: Point, x: float, y: float, size: float = 6.5) -> Html:
    """Return a point's dot at a place of the drawing, with its tip."""
    line = colour(point.series)
    return tag(
        "path",
        tag("title", point.tip),
        d=dot(point.shape, x, y, size),
        class_="dot",
        style=f"fill:{point.fill or line};stroke:{line}",
        role="img",
        data_site=point.site or None,
    )


def dot_key(shape: Shape, series: int, fill: str = "") -> Html:
    """Return a dot for a legend."""
    style = f"fill:{fill or colour(series)};stroke:{colour(series)}"
    sign = tag("path", d=dot(shape, 9, 9, 5.5), class_="dot", style=style)
    return tag("svg", sign, width="18", height="18", aria_hidden="true")
