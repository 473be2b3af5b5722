"""Building blocks of pages: one self-contained HTML file, from plain values.

A page is sections; a section holds tables and figures; a figure is a plot with the table of its
numbers. The markup is in ``templates/``; these functions fill it. A plain ``str`` is text and gets
escaped wherever it goes; only what these functions return is markup (``Html``). Colours are numbers
of series, which the page's CSS makes colours that suit light, dark and the colour-blind.
"""

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal

import jinja2
from markupsafe import Markup, escape

from feda3i import __version__
from feda3i.errors import escaped
from feda3i.report.axes import HEIGHT, WIDTH, Axis, names_beside, outline_of, path, plot_axes, room

Html = Markup
Tone = Literal["good", "warn", "bad", "plain"]
Shape = Literal["up", "down", "circle", "cross"]
Outline = tuple[Sequence[tuple[float, float]], int]
"""A closed line around points, such as an ellipse, and the number of its colour."""
_BLANKS = str.maketrans("\n\t\r", "   ")
SERIES = 8  # colours of the page; later series begin again, with another dash
DASHES = ("", "7 4", "2 4", "10 4 2 4")
SQUARE = 470  # height of a plane with its diagonal
LONGEST = 24


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


def visible(value: object) -> str:
    r"""Return a value as text that shows what it holds: no hidden or reordering characters.

    >>> visible("a\u202eb\tc")
    'a\\u202eb c'
    """
    return escaped(str(value).translate(_BLANKS))


def text(value: object) -> Html:
    """Return a value as markup: escaped, unless it is markup already."""
    return value if isinstance(value, Html) else escape(visible(value))


def join(parts: Iterable[object]) -> Html:
    """Return parts one after the other; what is not markup is escaped."""
    return Html("").join(map(text, parts))


def name(value: object) -> Html:
    """Return a name from outside; its writing direction does not affect the text around it."""
    return Html("<bdi>{}</bdi>").format(text(value))


def short(value: str, longest: int = LONGEST) -> str:
    """Return a name that fits beside a point or a row."""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def number(value: float | int | None, digits: int = 3) -> str:
    """Return a number as a table shows it; a dash where there is none.

    >>> number(0.81234), number(None), number(12), number(float("nan"))
    ('0.812', '-', '12', '-')
    """
    if value is None or isinstance(value, bool) or not math.isfinite(value):
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def size(value: float) -> str:
    """Return bytes as people say them.

    >>> size(12), size(300_000), size(5_200_000), size(2.5e9)
    ('12 bytes', '300 kB', '5.2 MB', '2.5 GB')
    """
    for unit, word, digits in ((1e9, "GB", 1), (1e6, "MB", 1), (1e3, "kB", 0)):
        if value >= unit:
            return f"{value / unit:.{digits}f} {word}"
    return f"{value:.0f} bytes"


def diverging(value: float, top: float) -> str:
    """Return a colour from blue (-top) over light grey (0) to orange (top)."""
    part = min(max(value / top, -1.0), 1.0) if top > 0 else 0.0
    return f"#{bytes(_mixed(242, (213, 94, 0) if part > 0 else (0, 114, 178), abs(part))).hex()}"


def heat(ratio: float) -> str:
    """Return the CSS of a cell for a ratio: green above 1, purple below, the text readable.

    The scale is logarithmic; 4 and 1/4 have the strongest colours.
    """
    part = math.log(max(ratio, 1e-9)) / math.log(4.0)
    mixed = _mixed(247, (27, 120, 55) if part > 0 else (118, 42, 131), min(abs(part), 1.0))
    # Whichever of black and white has the higher contrast: both reach 4.5 at a luminance of 0.18.
    ink = "#000" if luminance(mixed) > 0.179 else "#fff"
    return f"background:#{bytes(mixed).hex()};color:{ink}"


def _mixed(grey: int, end: Sequence[int], part: float) -> list[int]:
    return [round(grey + (e - grey) * part) for e in end]


def luminance(colour: Sequence[int]) -> float:
    """Return the relative luminance of red, green and blue in 0..255, as WCAG defines it."""
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return round(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], 10)


@cache
def templates() -> jinja2.Environment:
    """Return the templates; every value that is not markup is made visible and escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("feda3i.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finished,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"plane": plane, "lines": lines, "table": table}
    made.filters |= {
        "as": _attribute,
        "bdi": name,
        "colour": colour,
        "dash": lambda number: DASHES[number % len(DASHES)],
        "number": number,
        "outline_of": outline_of,
        "plain": lambda value: f"{value:g}",
        "signed": lambda value: f"{value:+g}" if value else "0",
    }
    return made


def _finished(value: Any) -> Any:
    if isinstance(value, Html):
        return value
    if isinstance(value, float):  # a coordinate: as many digits as a screen can show
        return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"
    return "" if value is None else visible(value)


def _attribute(value: object, key: str) -> Html:
    """Return an attribute with a blank before it; nothing if the value is empty."""
    if value is None or value == "":
        return Html("")
    return Html(' {}="{}"').format(Html(key), text(value))


def colour(series: int) -> str:
    """Return the CSS colour of a series."""
    return f"var(--s{series % SERIES})"


def block(name: str, *given: Any, file: str = "blocks.html.j2", **more: Any) -> Html:
    """Return what a macro makes."""
    return Html(getattr(templates().get_template(file).module, name)(*given, **more))


def table(
    caption: object,
    columns: Sequence[Column | tuple[Any, ...]],
    rows: Iterable[Sequence[object]],
    *,
    sites: Sequence[str] = (),
    hidden_caption: bool = False,
    kind: str = "",
) -> Html:
    """Return a table; the first cell of every row is its heading.

    A cell is a ``Cell``, markup, text, a number, or ``None`` for "not known". ``sites`` are those
    of the rows, for the filter of the page. A hidden caption is only read aloud.
    """
    titles = [one if isinstance(one, Column) else Column(*one) for one in columns]
    cells = [_cells(titles, row) for row in rows]
    return block("table", caption, titles, cells, sites, hidden_caption, kind)


def _cells(columns: Sequence[Column], row: Sequence[object]) -> list[Cell]:
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


# The macros of the same names in ``blocks.html.j2``:
figure = partial(block, "figure")  # (plot, caption, numbers): the table of its numbers folded away
folded = partial(block, "folded")  # (title, body, is_open=False): opens on a click, prints open
legend = partial(block, "legend")  # ([(words, key), ...])
dot_key = partial(block, "dot_key")  # (shape, series, fill=""): the key of a legend
cards = partial(block, "cards")  # ([(label, value, remark), ...]): main figures side by side
notice = partial(block, "notice")  # (tone, title, items): a box with remarks; nothing if none
badge = partial(block, "badge")  # (tone, words): a word that stands out, such as a state


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

    A diagonal is the line of equal x and y, in a taller frame; no axis then goes below 0. Corners
    are words at the upper left and the lower right; names are written beside their points.
    """
    width, height = (2 if is_wide else 1) * WIDTH, SQUARE if has_diagonal else HEIGHT
    # A logarithm has no end below: an outline that reaches to 0 must not squeeze the dots.
    around = [] if is_log else [place for ring, _ in outlines for place in ring]
    places = [*((point.x, point.y) for point in points), *around]
    spans = [room([place[axis] for place in places], is_log) for axis in (0, 1)]
    if has_diagonal:
        spans = [(max(low, 0.0), high) for low, high in spans]
    x, y = plot_axes(spans[0], spans[1], width, height, is_log)
    low, high = max(x.values[0], y.values[0]), min(x.values[1], y.values[1])
    words = [(corners[0], x.first + 10, y.last + 14, "start")] if corners else []
    words += [(corners[1], x.last - 10, y.first - 10, "end")] if corners else []
    dots = [(x(p.x), y(p.y), short(n, 18)) for p, n in zip(points, names, strict=False)]
    diagonal = path([(low, low), (high, high)], x, y) if has_diagonal and low < high else ""
    rings = [(path(ring, x, y), series) for ring, series in outlines]
    words += names_beside(dots, words, x, y)
    frame = (x, y, x_label, y_label)
    return block(
        "plane", title, about, points, frame, width, height, is_wide, diagonal, rings, words
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

    ``digits`` are those of values that are read off; marks are vertical lines with a word each.
    """
    xs = [v for one in series for v in one.x]
    ys = [v for one in series for part in (one.y, one.low, one.high) for v in part]
    x, y = plot_axes((min(xs, default=0.0), max(xs, default=1.0)), room(ys))
    told = [
        (visible(one.name), k % SERIES, [*one.x], [round(v, digits) for v in one.y])
        for k, one in enumerate(series)
    ]
    ends = {"left": x.first, "right": x.last, "low": x.values[0], "high": x.values[1]}
    readout = json.dumps({**ends, "label": visible(x_label), "series": told})
    bands = [(_band(one, x, y), k) for k, one in enumerate(series) if one.low]
    paths = [(_line(one, x, y), k) for k, one in enumerate(series) if one.x]
    shown = [(x(at), word) for at, word in marks if x.values[0] <= at <= x.values[1]]
    names = [one.name for one in series]
    frame = (x, y, x_label, y_label)
    return block("lines", title, about, frame, names, shown, bands, paths, readout)


def _band(one: Series, x: Axis, y: Axis) -> str:
    places = [*zip(one.x, one.high, strict=True), *zip(one.x[::-1], one.low[::-1], strict=True)]
    return path(places, x, y)


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

    A policy in its head forbids every request and every script but its own, so even markup that
    slipped through could not act. ``filter_sites`` offers a field that narrows everything with a
    ``data-site`` to matching names.
    """
    style, script = (Html(own_file(file)) for file in ("page.css", "page.js"))
    # A hash, not a nonce: the file is the same for the same run.
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    )
    values = {"title": title, "subtitle": subtitle, "top": top, "sections": sections}
    values |= {"filter_sites": filter_sites, "style": style, "script": script, "policy": policy}
    return templates().get_template("page.html.j2").render(**values, version=__version__)


def own_file(file: str) -> str:
    """Return a file that lies beside the templates."""
    return files("feda3i.report").joinpath("templates", file).read_text(encoding="utf-8")
