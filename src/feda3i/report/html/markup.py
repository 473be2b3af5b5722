"""Markup that no content can break: every text is escaped exactly once.

Names of sites and cases come from folders, and a run folder may come from somebody else. A plain
``str`` is therefore always text; only ``Html``, which this package makes, is markup.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable

VOID = frozenset({"meta", "br", "hr", "img", "input", "link", "image", "path", "line", "rect"})
"""Elements without content. Those of SVG among them are closed by a slash."""
JOINERS = "\u200c\u200d\u00ad"
"""Format characters that belong to words of some languages; all others are made visible."""


class Html(str):
    """Text that is markup already; adding two keeps it so."""

    __slots__ = ()


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
    '&lt;b&gt;'
    """
    return value if isinstance(value, Html) else Html(html.escape(visible(value)))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Return parts one after the other; what is not markup is escaped."""
    return Html(html.escape(between).join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; ``None`` and ``False`` leave an attribute out, ``_`` stands for ``-``.

    >>> tag("a", "x < y", href="#top", class_="big", hidden=False)
    '<a href="#top" class="big">x &lt; y</a>'
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID and not children:
        return Html(f"<{name}{given}/>")
    return Html(f"<{name}{given}>{join(children)}</{name}>")


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = _short(value) if isinstance(value, float) else html.escape(visible(value))
    return f' {name}="{shown}"'


def _short(value: float) -> str:
    """Return a coordinate with as many digits as a screen can show."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def name(value: object) -> Html:
    """Return a name from outside; its writing direction does not affect the text around it."""
    return tag("bdi", value)


def number(value: float | int | None, digits: int = 3) -> str:
    """Return a number as a table shows it; a dash where there is none.

    >>> number(0.81234), number(None), number(12), number(float("nan"))
    ('0.812', '-', '12', '-')
    """
    if value is None or isinstance(value, bool) or not math.isfinite(value):
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def plus_minus(mean: float | None, deviation: float | None, digits: int = 3) -> str:
    """Return mean and standard deviation, the second only if there is one.

    >>> plus_minus(0.8, 0.01), plus_minus(0.8, None)
    ('0.800 ± 0.010', '0.800')
    """
    shown = number(mean, digits)
    return shown if deviation is None else f"{shown} ± {number(deviation, digits)}"


def size(value: float) -> str:
    """Return bytes as people say them.

    >>> size(12), size(300_000), size(5_200_000), size(2.5e9)
    ('12 bytes', '300 kB', '5.2 MB', '2.5 GB')
    """
    for unit, word, digits in ((1e9, "GB", 1), (1e6, "MB", 1), (1e3, "kB", 0)):
        if value >= unit:
            return f"{value / unit:.{digits}f} {word}"
    return f"{value:.0f} bytes"
