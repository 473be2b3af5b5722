"""What all plots share: inline SVG that scales, colours, legends, and the table behind.

Colours are CSS variables of the page, so that plots follow light and dark. What colour says, shape,
dash or a label says too. Every plot has a title and a description that screen readers read, and
belongs into ``figure`` with the table of its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from feda3i.report.html.axes import Axis, Span
from feda3i.report.html.markup import Html, tag, text, visible

WIDTH, HEIGHT = 560, 350
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 12, 50
SERIES = 8
"""Colours of the page; later series begin again, with another dash."""
DASHES = ("", "7 4", "2 4", "10 4 2 4")


def colour(number: int) -> str:
    """Return the CSS colour of a series."""
    return f"var(--s{number % SERIES})"


def dash(number: int) -> str | None:
    """Return how a series is dashed."""
    return DASHES[number % len(DASHES)] or None


def svg(
    title: str,
    about: str,
    *parts: object,
    width: float = WIDTH,
    height: float = HEIGHT,
    role: str = "img",
    **more: object,
) -> Html:
    """Return a drawing that scales with the page and says what it is."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", about),
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        role=role,
        aria_label=f"{visible(title)}. {visible(about)}",
        class_="plot",
        **more,
    )


def plot_axes(
    x: Span, y: Span, width: int = WIDTH, height: int = HEIGHT, is_log: bool = False
) -> tuple[Axis, Axis]:
    """Return the axes of a drawing of this size, with room for labels at the left and below."""
    across, up = (LEFT, width - RIGHT), (height - BOTTOM, TOP)
    return Axis(x, across, is_log), Axis(y, up, is_log)


def path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """Return the path through points."""
    return "M" + "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points)


def legend(entries: Sequence[tuple[str, Html]]) -> Html:
    """Return the legend of a plot."""
    items = [tag("li", key, tag("bdi", words)) for words, key in entries]
    return tag("ul", *items, class_="legend")


def figure(plot: Html, caption: object, table: Html, **more: object) -> Html:
    """Return a plot with its caption and, folded away, the table of its numbers."""
    numbers = tag("details", tag("summary", "The numbers"), table)
    return tag("figure", plot, tag("figcaption", text(caption)), numbers, **more)


def diverging(value: float, top: float) -> str:
    """Return a colour from blue (-top) over light grey (0) to orange (top).

    >>> diverging(0.0, 1.0), diverging(-1.0, 1.0), diverging(1.0, 1.0)
    ('#f2f2f2', '#0072b2', '#d55e00')
    """
    part = min(max(value / top, -1.0), 1.0) if top > 0 else 0.0
    end = (213, 94, 0) if part > 0 else (0, 114, 178)
    mixed = [round(242 + (e - 242) * abs(part)) for e in end]
    return f"#{bytes(mixed).hex()}"


def scale(low: str, high: str, words: str) -> Html:
    """Return the legend of ``diverging`` colours: the two ends and what they measure."""
    bar = tag("span", class_="scale", aria_hidden="true")
    return tag("p", low, " ", bar, " ", high, tag("span", f" {words}"), class_="legend")
