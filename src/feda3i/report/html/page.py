"""The shell of a page: one file, no network, light and dark, paper and phone.

A policy in the head forbids the page every request and every script but its own, so even markup
that slipped through somewhere could not act.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from feda3i import __version__
from feda3i.report.html.markup import Html, join, tag, text

Tone = Literal["good", "warn", "bad", "plain"]


@dataclass(frozen=True)
class Section:
    """One part of a page, with an entry in its menu."""

    key: str  # its anchor: letters and dashes
    title: str
    body: Html
    intro: object = ""  # one or two sentences below the heading: what is to be seen here
    menu: str = ""  # its name in the menu; the title by default


def page(
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: object = "",
    top: object = "",
    filter_sites: bool = False,
    refresh: float = 0,
) -> str:
    """Return a whole page as text of an HTML file.

    Parameters
    ----------
    top
        What stands above the sections: cards with the main figures, warnings.
    filter_sites
        Offer a field that narrows everything with a ``data-site`` to matching names.
    refresh
        Seconds after which a browser loads the page again; 0: never.
    """
    style, script = _own("page.css"), _own("page.js")
    # A hash, not a nonce: the file is the same for the same run.
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", http_equiv="refresh", content=f"{refresh:g}") if refresh else "",
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"feda3i {__version__}"),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        _header(title, subtitle, sections, filter_sites),
        tag("main", text(top), *map(_section, sections), id="content"),
        tag("footer", f"Made by feda3i {__version__}. This file loads nothing from anywhere."),
        tag("div", id="tip", role="status", aria_live="polite", hidden=True),
        tag("script", Html(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _own(name: str) -> str:
    return files("feda3i.report.html").joinpath(name).read_text(encoding="utf-8")


def _header(title: str, subtitle: object, sections: Sequence[Section], filters: bool) -> Html:
    links = [tag("li", tag("a", one.menu or one.title, href=f"#{one.key}")) for one in sections]
    field = tag(
        "label",
        "Filter sites ",
        tag("input", type="search", id="filter", placeholder="part of a name"),
        tag("output", id="found", for_="filter"),
        class_="js-only filter",
    )
    words = tag("p", subtitle, class_="subtitle") if subtitle else ""
    menu = tag("nav", tag("ul", *links), field if filters else "", aria_label="Sections")
    return join([tag("header", tag("h1", tag("bdi", title)), words), menu])


def _section(one: Section) -> Html:
    intro = tag("p", one.intro, class_="intro") if one.intro else ""
    return tag(
        "section",
        tag("h2", one.title, id=f"{one.key}-title"),
        intro,
        one.body,
        id=one.key,
        aria_labelledby=f"{one.key}-title",
    )


def cards(items: Sequence[tuple[str, object, object]]) -> Html:
    """Return main figures side by side: label, value, remark."""
    made = []
    for label, value, remark in items:
        what, soft = tag("span", label, class_="what"), tag("span", remark, class_="soft")
        made.append(tag("li", what, tag("strong", value), soft))
    return tag("ul", *made, class_="cards")


def notice(tone: Tone, title: str, items: Sequence[object]) -> Html:
    """Return a box with remarks; its title says how serious they are."""
    if not items:
        return Html("")
    kind = f"notice {tone}"
    return tag("aside", tag("h3", title), bullets(items), class_=kind, aria_label=title)


def bullets(items: Sequence[object]) -> Html:
    """Return a list."""
    return tag("ul", *(tag("li", item) for item in items))


def badge(tone: Tone, words: str) -> Html:
    """Return a word that stands out, such as a state."""
    return tag("span", words, class_=f"badge {tone}")


def paragraph(*parts: object) -> Html:
    """Return a paragraph."""
    return tag("p", *parts)


def folded(title: object, *parts: object, is_open: bool = False) -> Html:
    """Return content that opens on a click; it prints open."""
    return tag("details", tag("summary", title), *parts, open=is_open)
