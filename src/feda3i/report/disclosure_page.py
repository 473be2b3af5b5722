"""The manifest of what leaves a site as Markdown, and as one page to print or to send."""

from __future__ import annotations

from collections.abc import Sequence

from feda3i.report import html
from feda3i.report.disclosure import Disclosure, Item
from feda3i.report.html import Column, Html, Section

COLUMNS = ("message", "what is in it", "bytes", "how often", "who can see it")
BRACKETS = "In brackets: how many numbers. Bytes of one message, without the transport's own."


def markdown(found: Disclosure) -> str:
    """Return the manifest as Markdown."""
    lines = [f"# {found.title}: what leaves a site", ""]
    lines += [f"- {name}: {value}" for name, value in found.facts.items()]
    lines += ["", "## Leaves a site", "", BRACKETS, "", *_rows(found.up)]
    lines += ["", "## Comes to a site", "", *_rows(found.down)]
    lines += ["", "## Never leaves", "", *(f"- {one}" for one in found.stays)]
    if found.shields:
        lines += ["", "## Protection", "", *(f"- {one}" for one in found.shields)]
    lines += ["", "## What remains", "", *(f"- {one}" for one in found.limits)]
    if found.counted:
        lines += ["", "## Counted in this run", "", "| site | bytes sent |", "|---|---|"]
        lines += [f"| {_cell(site)} | {size:,} |" for site, size in found.counted.items()]
    return "\n".join(lines) + "\n"


def _rows(items: Sequence[Item]) -> list[str]:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|---|---|---|"]
    for one in items:
        cells = (one.name, "; ".join(one.holds), f"{one.size:,}", one.often, one.seen)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return lines


def _cell(text: str) -> str:
    return html.visible(text).replace("|", "\\|")


def disclosure_page(found: Disclosure) -> str:
    """Return the manifest as the text of an HTML file."""
    cards = [
        ("secure aggregation", found.facts["secure aggregation"], "does the server see sums only?"),
        ("differential privacy", found.facts["differential privacy"], "is what leaves noised?"),
        ("largest message", html.size(max(one.size for one in found.up)), "from a site"),
        ("rounds", found.facts["rounds"], f"method {found.facts['method']}"),
    ]
    sections = [
        Section("up", "What leaves a site", _table("What leaves a site", found.up), BRACKETS),
        Section("stays", "What never leaves", html.bullets(found.stays)),
        Section("protection", "Protection, and what remains", _protection(found), "", "Protection"),
        Section("down", "What comes to a site", _table("What comes to a site", found.down)),
        Section("run", "What is run", html.facts(list(found.facts.items())), "", "Run"),
    ]
    if found.counted:
        sections.insert(1, Section("counted", "Counted in this run", _counted(found)))
    return html.page(
        f"{found.title}: what leaves a site",
        sections,
        subtitle="Made from what the method declares; anything else is refused on both sides.",
        top=html.cards(cards),
    )


def _table(caption: str, items: Sequence[Item]) -> Html:
    columns = [Column(one, "number" if one == "bytes" else "text") for one in COLUMNS]
    rows = [[one.name, html.bullets(one.holds), one.size, one.often, one.seen] for one in items]
    return html.table(caption, columns, rows, hidden_caption=True)


def _protection(found: Disclosure) -> Html:
    shields = html.notice("good", "What protects the sites", found.shields)
    limits = html.notice("warn", "What remains visible or possible", found.limits)
    return html.join([shields, limits])


def _counted(found: Disclosure) -> Html:
    rows = [
        [html.name(site), html.Cell(html.size(size), float(size))]
        for site, size in found.counted.items()
    ]
    columns = [Column("site"), Column("sent", "number")]
    about = "Bytes that came from each site in all rounds, as the server counted them"
    return html.table(about, columns, rows)
