"""Building blocks of pages: one self-contained HTML file, from plain values.

A page is sections in a shell; a section holds tables and figures; a figure is a plot with the table
of its numbers. The markup is in ``templates/``; these functions fill it::

    from feda3i.report import html

    plot = html.lines("Dice", "It rises.", [html.Series("fedavg", x, y)], x_label="round",
                      y_label="Dice")
    table = html.table("Dice by site", [html.Column("site"), html.Column("Dice", "number")], rows,
                       sites=names)                              # sortable, filtered by site
    section = html.Section("dice", "Dice", html.figure(plot, "Caption.", table), "An introduction.")
    text = html.page("Title", [section], top=html.cards([("Dice", "0.86", "last round")]))

``page`` returns the text of the file. A plain ``str`` is text and gets escaped wherever it goes;
only what these functions return is markup (``Html``). Colours are numbers of series, which the
page's CSS makes colours that suit light, dark and readers who do not tell red from green.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Literal

from feda3i import __version__
from feda3i.report.axes import HEIGHT, WIDTH, Axis, names_beside, outline_of, path, plot_axes, room
from feda3i.report.markup import (
    SERIES,
    Html,
    block,
    colour,
    diverging,
    heat,
    join,
    name,
    number,
    render,
    short,
    size,
    text,
    visible,
)

__all__ = [
    "Axis",
    "Cell",
    "Column",
    "Html",
    "Outline",
    "Point",
    "Section",
    "Series",
    "Shape",
    "Tone",
    "badge",
    "block",
    "cards",
    "colour",
    "diverging",
    "dot",
    "dot_key",
    "figure",
    "folded",
    "heat",
    "join",
    "legend",
    "lines",
    "name",
    "notice",
    "number",
    "page",
    "plane",
    "render",
    "room",
    "short",
    "size",
    "table",
    "text",
    "visible",
]

Tone = Literal["good", "warn", "bad", "plain"]
Shape = Literal["up", "down", "circle", "cross"]
SQUARE = 470
"""Height of a plane with its diagonal."""


@dataclass(frozen=True)
class Section:
    """One part of a page, with an entry in its menu."""

    key: str  # its anchor: letters and dashes
    title: str
    body: Html
    intro: object = ""  # one or two sentences below the heading: what is to be seen here
    menu: str = ""  # its name in the menu; the title by default


@dataclass(frozen=True)
class Column:
    """A column."""

    title: str
    kind: Literal["text", "number"] = "text"  # numbers stand to the right and sort by value
    digits: int = 3  # of a number that is not whole
    hint: str = ""  # what the heading means; shown on hover and read aloud

    @property
    def class_(self) -> str:
        """Return the CSS class of its cells."""
        return "num" if self.kind == "number" else ""


@dataclass(frozen=True)
class Cell:
    """What a cell shows if it is not the plain value: other words, a colour, a mark."""

    shown: object  # text or markup
    value: float | str | None = None  # what the column sorts by
    # CSS of the cell
    style: str | None = None
    class_: str | None = None


@dataclass(frozen=True)
class Series:
    """One line: values over x, and the band around them if there is one."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    # The band; empty if there is none
    low: Sequence[float] = ()
    high: Sequence[float] = ()


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


# -- blocks ---------------------------------------------------------------------------------------


def table(
    caption: object,
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    *,
    sites: Sequence[str] = (),
    hidden_caption: bool = False,
    kind: str = "",
) -> Html:
    """Return a table; the first cell of every row is its heading.

    Parameters
    ----------
    columns, rows
        A cell is a ``Cell``, markup, text, a number, or ``None`` for "not known".
    sites
        The site of each row, for the filter of the page; empty if rows are no sites.
    hidden_caption
        Only read aloud, because a heading above says the same.
    """
    cells = [_cells(columns, row) for row in rows]
    return block("table", caption, columns, cells, sites, hidden_caption, kind)


def _cells(columns: Sequence[Column], row: Sequence[object]) -> list[Cell]:
    """Return the cells of a row as they are shown; ``None`` is "not known"."""
    cells = []
    for column, value in zip(columns, row, strict=True):
        if isinstance(value, Cell):
            cell = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            cell = Cell(number(value, column.digits), value if math.isfinite(value) else None)
        else:
            cell = Cell("-" if value is None else value)
        by = cell.value if isinstance(cell.value, str | None) else f"{cell.value:.6g}"
        class_ = f"{column.class_} {cell.class_ or ''}".strip()
        cells.append(Cell(cell.shown, None if by == cell.shown else by, cell.style, class_))
    return cells


figure = partial(block, "figure")
"""``figure(plot, caption, numbers="")``: a plot and, folded away, the table of its numbers."""
folded = partial(block, "folded")
"""``folded(title, body, is_open=False)``: content that opens on a click; it prints open."""
legend = partial(block, "legend")
"""``legend([(words, key), ...])``; ``dot_key(shape, series, fill="")`` makes a key."""
dot_key = partial(block, "dot_key")
dot = partial(block, "dot")
"""``dot(point, x, y, size=6.5)``: a point at a place of a drawing, with its tip."""
cards = partial(block, "cards")
"""``cards([(label, value, remark), ...])``: main figures side by side."""
notice = partial(block, "notice")
"""``notice(tone, title, items)``: a box with remarks; nothing if there are none."""
badge = partial(block, "badge")
"""``badge(tone, words)``: a word that stands out, such as a state."""


def plane(
    title: str,
    about: str,
    points: Sequence[Point],
    *,
    x_label: str,
    y_label: str,
    is_log: bool = False,
    has_diagonal: bool = False,
    is_wide: bool = False,
    outlines: Sequence[Outline] = (),
    corners: tuple[str, str] | None = None,
    names: Sequence[str] = (),
) -> Html:
    """Return points in a plane, each with its own tip.

    Parameters
    ----------
    title, about
        What it shows, and what is to be seen.
    has_diagonal
        Draw the line of equal x and y, in a taller frame; no axis goes below 0.
    is_wide
        As wide as the page.
    outlines
        Closed lines below the dots; what lies outside the axes is cut off.
    corners
        Words at the upper left and the lower right.
    names
        Of the points, written beside them where there is room.
    """
    width, height = (2 if is_wide else 1) * WIDTH, SQUARE if has_diagonal else HEIGHT
    # A logarithm has no end below: an outline that reaches to 0 must not squeeze the dots.
    around = [] if is_log else [place for one in outlines for place in one.points]
    places = [*((point.x, point.y) for point in points), *around]
    spans = [room([place[axis] for place in places], is_log) for axis in (0, 1)]
    if has_diagonal:
        spans = [(max(low, 0.0), high) for low, high in spans]
    x, y = plot_axes(spans[0], spans[1], width, height, is_log)
    low, high = max(x.values[0], y.values[0]), min(x.values[1], y.values[1])
    words = (
        []
        if corners is None
        else [
            (corners[0], x.first + 10, y.last + 14, "start"),
            (corners[1], x.last - 10, y.first - 10, "end"),
        ]
    )
    dots = [(x(p.x), y(p.y), short(n, 18)) for p, n in zip(points, names, strict=False)]
    return block(
        "plane",
        {
            "title": title,
            "about": about,
            "points": points,
            "x": x,
            "y": y,
            "x_label": x_label,
            "y_label": y_label,
            "width": width,
            "height": height,
            "is_wide": is_wide,
            "diagonal": path([(low, low), (high, high)], x, y)
            if has_diagonal and low < high
            else "",
            "outlines": [(path(one.points, x, y), one.series) for one in outlines],
            "words": [*words, *names_beside(dots, words, x, y)],
        },
    )


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
    told = [
        (visible(one.name), k % SERIES, rounded(one.x, 6), rounded(one.y, digits))
        for k, one in enumerate(series)
    ]
    ends = {"left": x.first, "right": x.last, "low": x.values[0], "high": x.values[1]}
    return block(
        "lines",
        {
            "title": title,
            "about": about,
            "x": x,
            "y": y,
            "x_label": x_label,
            "y_label": y_label,
            "names": [one.name for one in series],
            "marks": [(x(at), word) for at, word in marks if x.values[0] <= at <= x.values[1]],
            "bands": [(_band(one, x, y), k) for k, one in enumerate(series) if one.low],
            "paths": [(_line(one, x, y), k) for k, one in enumerate(series) if one.x],
            "readout": json.dumps({**ends, "label": visible(x_label), "series": told}),
        },
    )


def rounded(values: Sequence[float], digits: int) -> list[float]:
    """Return values with so many digits."""
    return [round(v, digits) for v in values]


def _band(one: Series, x: Axis, y: Axis) -> str:
    there, back = zip(one.x, one.high, strict=True), zip(one.x, one.low, strict=True)
    return path([*there, *reversed([*back])], x, y)


def _line(one: Series, x: Axis, y: Axis) -> str:
    if len(one.x) == 1:
        return outline_of("circle", x(one.x[0]), y(one.y[0]), 1.5)
    return path([*zip(one.x, one.y, strict=True)], x, y)


def page(
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: object = "",
    top: object = "",
    filter_sites: bool = False,
) -> str:
    """Return a whole page as text of an HTML file.

    A policy in its head forbids the page every request and every script but its own, so even
    markup that slipped through somewhere could not act.

    Parameters
    ----------
    top
        What stands above the sections: cards with the main figures, warnings.
    filter_sites
        Offer a field that narrows everything with a ``data-site`` to matching names.
    """
    style, script = (Html(own_file(file)) for file in ("page.css", "page.js"))
    # A hash, not a nonce: the file is the same for the same run.
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    )
    return render(
        "page.html.j2",
        title=title,
        sections=sections,
        subtitle=subtitle,
        top=top,
        filter_sites=filter_sites,
        style=style,
        script=script,
        policy=policy,
        version=__version__,
    )


def own_file(file: str) -> str:
    """Return a file that lies beside the templates."""
    return files("feda3i.report").joinpath("templates", file).read_text(encoding="utf-8")
