"""Tables: the numbers themselves. They sort by a click on a heading if the browser runs scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from feda3i.report.html.markup import Html, join, number, tag, text

TALL = 16
"""Rows beyond which a table scrolls within itself, under a heading that stays."""


@dataclass(frozen=True)
class Column:
    """A column."""

    title: str
    kind: Literal["text", "number"] = "text"  # numbers stand to the right and sort by value
    digits: int = 3  # of a number that is not whole
    hint: str = ""  # what the heading means; shown on hover and read aloud


@dataclass(frozen=True)
class Cell:
    """What a cell shows if it is not the plain value: other words, a colour, a mark."""

    shown: object  # text or markup
    value: float | str | None = None  # what the column sorts by
    # CSS of the cell
    style: str | None = None
    class_: str | None = None


def table(
    caption: object,
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    *,
    sites: Sequence[str] = (),
    hidden_caption: bool = False,
    class_: str = "",
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
    head = [
        tag("th", one.title, scope="col", class_=_class(one), title=one.hint or None)
        for one in columns
    ]
    body = [
        tag("tr", *_cells(columns, row), data_site=sites[k] if sites else None)
        for k, row in enumerate(rows)
    ]
    whole = tag(
        "table",
        tag("caption", caption, class_="aside" if hidden_caption else None),
        tag("thead", tag("tr", *head)),
        tag("tbody", join(body)),
        class_=f"data {class_}".strip(),
    )
    # A wide table scrolls within itself; tabindex lets the keyboard scroll it.
    place = "scroll tall" if len(rows) > TALL else "scroll"
    return tag("div", whole, class_=place, tabindex="0", role="group", aria_label=caption)


def _class(column: Column) -> str | None:
    return "num" if column.kind == "number" else None


def _cells(columns: Sequence[Column], row: Sequence[object]) -> list[Html]:
    return [
        _cell(column, value, k == 0)
        for k, (column, value) in enumerate(zip(columns, row, strict=True))
    ]


def _cell(column: Column, value: object, is_first: bool) -> Html:
    cell = value if isinstance(value, Cell) else _as_cell(column, value)
    kinds = " ".join(filter(None, (_class(column), cell.class_))) or None
    by = cell.value if isinstance(cell.value, str | None) else f"{cell.value:.6g}"
    return tag(
        "th" if is_first else "td",
        text(cell.shown),
        scope="row" if is_first else None,
        class_=kinds,
        style=cell.style,
        data_value=None if cell.value == cell.shown else by,
    )


def _as_cell(column: Column, value: object) -> Cell:
    if isinstance(value, int | float) and not isinstance(value, bool):
        sorted_by = float(value) if math.isfinite(value) else None
        return Cell(number(value, column.digits), sorted_by)
    return Cell("-" if value is None else value)


def facts(pairs: Sequence[tuple[object, object]]) -> Html:
    """Return a list of names and what they are."""
    return tag("dl", *(tag("div", tag("dt", k), tag("dd", v)) for k, v in pairs), class_="facts")


def heat(ratio: float) -> str:
    """Return the CSS of a cell for a ratio: green above 1, purple below, the text readable.

    The scale is logarithmic; 4 and 1/4 have the strongest colours.

    >>> heat(1.0)
    'background:#f7f7f7;color:#000'
    """
    part = math.log(max(ratio, 1e-9)) / math.log(4.0)
    end = (27, 120, 55) if part > 0 else (118, 42, 131)
    mixed = [round(247 + (e - 247) * min(abs(part), 1.0)) for e in end]
    # Whichever of black and white has the higher contrast: both reach 4.5 at a luminance of 0.18.
    ink = "#000" if luminance(mixed) > 0.179 else "#fff"
    return f"background:#{bytes(mixed).hex()};color:{ink}"


def luminance(colour: Sequence[int]) -> float:
    """Return the relative luminance of red, green and blue in 0..255, as WCAG defines it.

    >>> luminance((255, 255, 255))
    1.0
    """
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return round(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], 10)
