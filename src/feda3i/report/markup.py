"""Templates, and text that no content can turn into markup: every text is escaped exactly once.

Names of sites and cases come from folders, and a run folder may come from somebody else. A plain
``str`` is therefore always text; only ``Html``, which templates make, is markup.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from feda3i.report.axes import outline_of

JOINERS = "\u200c\u200d\u00ad"
"""Format characters that belong to words of some languages; all others are made visible."""
SERIES = 8
"""Colours of the page; later series begin again, with another dash."""
DASHES = ("", "7 4", "2 4", "10 4 2 4")
LONGEST = 24
Html = Markup


def visible(value: object) -> str:
    r"""Return a value as text that shows what it holds: no hidden or reordering characters.

    >>> visible("a\u202eb\x07c\td")
    'a[U+202E]b[U+0007]c d'
    """
    return "".join(map(_shown, str(value)))


def _shown(char: str) -> str:
    if char in "\n\t\r":
        return " "
    kind = unicodedata.category(char)
    is_hidden = kind in ("Cc", "Cs", "Cf") and char not in JOINERS
    return f"[U+{ord(char):04X}]" if is_hidden else char


def text(value: object) -> Html:
    """Return a value as markup: escaped, unless it is markup already.

    >>> text("<b>")
    Markup('&lt;b&gt;')
    """
    return value if isinstance(value, Html) else escape(visible(value))


def join(parts: Iterable[object]) -> Html:
    """Return parts one after the other; what is not markup is escaped."""
    return Html("").join(map(text, parts))


def name(value: object) -> Html:
    """Return a name from outside; its writing direction does not affect the text around it."""
    return Html("<bdi>{}</bdi>").format(text(value))


def short(value: str, longest: int = LONGEST) -> str:
    """Return a name that fits beside a point or a row.

    >>> short("Hospital of the Holy Spirit, Ward 3")
    'Hospital of the Holy Sp…'
    """
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


# -- colours --------------------------------------------------------------------------------------


def diverging(value: float, top: float) -> str:
    """Return a colour from blue (-top) over light grey (0) to orange (top).

    >>> diverging(0.0, 1.0), diverging(-1.0, 1.0), diverging(1.0, 1.0)
    ('#f2f2f2', '#0072b2', '#d55e00')
    """
    part = min(max(value / top, -1.0), 1.0) if top > 0 else 0.0
    return f"#{bytes(_mixed(242, (213, 94, 0) if part > 0 else (0, 114, 178), abs(part))).hex()}"


def heat(ratio: float) -> str:
    """Return the CSS of a cell for a ratio: green above 1, purple below, the text readable.

    The scale is logarithmic; 4 and 1/4 have the strongest colours.

    >>> heat(1.0)
    'background:#f7f7f7;color:#000'
    """
    part = math.log(max(ratio, 1e-9)) / math.log(4.0)
    mixed = _mixed(247, (27, 120, 55) if part > 0 else (118, 42, 131), min(abs(part), 1.0))
    # Whichever of black and white has the higher contrast: both reach 4.5 at a luminance of 0.18.
    ink = "#000" if luminance(mixed) > 0.179 else "#fff"
    return f"background:#{bytes(mixed).hex()};color:{ink}"


def _mixed(grey: int, end: Sequence[int], part: float) -> list[int]:
    return [round(grey + (e - grey) * part) for e in end]


def luminance(colour: Sequence[int]) -> float:
    """Return the relative luminance of red, green and blue in 0..255, as WCAG defines it.

    >>> luminance((255, 255, 255))
    1.0
    """
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return round(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], 10)


# -- templates ------------------------------------------------------------------------------------


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


def render(template: str, **values: Any) -> Html:
    """Return a filled template."""
    return Html(templates().get_template(template).render(**values))


def block(name: str, *given: Any, file: str = "blocks.html.j2", **more: Any) -> Html:
    """Return what a macro makes."""
    return Html(getattr(templates().get_template(file).module, name)(*given, **more))
