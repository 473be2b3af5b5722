"""Lines over a common x, with bands; pointer or arrow keys show values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from feda3i.report.html.axes import Axis, frame, room
from feda3i.report.html.charts import SERIES, colour, dash, legend, path, plot_axes, svg
from feda3i.report.html.markup import Html, join, tag, visible


@dataclass(frozen=True)
class Series:
    """One line: values over x, and the band around them if there is one."""

    name: str
    # The line; ``y`` of ``None`` is a gap
    x: Sequence[float]
    y: Sequence[float]
    # The band; empty if there is none
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def lines(
    title: str,
    about: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    digits: int = 3,
    marks: Sequence[tuple[float, str]] = (),
) -> Html:
    """Return lines over a common x, with bands; pointer or arrow keys show values.

    Parameters
    ----------
    title, about
        What it shows, and what is to be seen.
    digits
        Of values that are read off.
    marks
        Vertical lines with a word each.
    """
    xs = [v for one in series for v in one.x]
    ys = [v for one in series for part in (one.y, one.low, one.high) for v in part]
    x, y = plot_axes((min(xs, default=0.0), max(xs, default=1.0)), room(ys))
    (low, high), (left, right), (bottom, top) = x.values, x.places, y.places
    parts = [frame(x, y, x_label, y_label, whole_x=True)]
    parts += [_mark(x(place), word, y) for place, word in marks if low <= place <= high]
    parts += [_band(one, k, x, y) for k, one in enumerate(series) if one.low]
    parts += [_line(one, k, x, y) for k, one in enumerate(series)]
    parts.append(tag("line", class_="cross", y1=top, y2=bottom, visibility="hidden"))
    readout = {
        "left": left,
        "right": right,
        "low": low,
        "high": high,
        "label": visible(x_label),
        "series": [
            [
                visible(one.name),
                k % SERIES,
                [round(v, 6) for v in one.x],
                [round(v, digits) for v in one.y],
            ]
            for k, one in enumerate(series)
        ],
    }
    return join(
        [
            svg(title, about, *parts, tabindex="0", data_lines=json.dumps(readout)),
            legend([(one.name, _key(k)) for k, one in enumerate(series)]),
        ]
    )


def _mark(place: float, word: str, y: Axis) -> Html:
    bottom, top = y.places
    line = tag("line", x1=place, x2=place, y1=top, y2=bottom, class_="mark")
    return join([line, tag("text", word, x=place + 5, y=bottom - 8, class_="soft")])


def _band(one: Series, number: int, x: Axis, y: Axis) -> Html:
    there = [*zip(one.x, one.high, strict=True)]
    back = [*zip(one.x, one.low, strict=True)][::-1]
    style = f"fill:{colour(number)}"
    return tag("path", d=path([*there, *back], x, y) + "Z", class_="band", style=style)


def _line(one: Series, number: int, x: Axis, y: Axis) -> Html:
    points = [*zip(one.x, one.y, strict=True)]
    style = f"stroke:{colour(number)}"
    if len(points) == 1:
        place = {"cx": x(points[0][0]), "cy": y(points[0][1]), "r": 4.0}
        return tag("circle", **place, style=f"fill:{colour(number)}")
    if not points:
        return Html("")
    return tag(
        "path", d=path(points, x, y), class_="line", style=style, stroke_dasharray=dash(number)
    )


def _key(number: int) -> Html:
    """Return the short line of a legend."""
    style = f"stroke:{colour(number)}"
    line = tag(
        "line", x1=1, x2=27, y1=6, y2=6, class_="line", style=style, stroke_dasharray=dash(number)
    )
    return tag("svg", line, width="28", height="12", aria_hidden="true")
