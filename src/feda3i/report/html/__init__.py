"""Building blocks of pages: one self-contained HTML file, from plain values.

A page is sections in a shell; a section holds paragraphs, tables and figures; a figure is a plot
with the table of its numbers. Any page is made of the same few calls::

    from feda3i.report import html

    body = html.join([
        html.paragraph("Sites drawn ", html.name(site)),         # text is escaped, always
        html.table("Dice by site", [html.Column("site"), html.Column("Dice", "number")], rows,
                   sites=names),                                 # sortable, filtered by site
        html.figure(html.lines("Dice", "It rises.", [html.Series("fedavg", x, y)],
                    x_label="round", y_label="Dice"), "Caption.", table),
    ])
    sections = [html.Section("dice", "Dice by site", body, "What is to be seen here.")]
    text = html.page("Title", sections, top=html.cards([("Dice", "0.86", "last round")]))

``page`` returns the text of the file; ``feda3i.basics.files.write_file`` writes it. A plain ``str``
is text and gets escaped wherever it goes; only what these functions return is markup (``Html``).
Colours are numbers of series (``Series``, ``Point.series``), which the page's CSS makes colours
that suit light, dark and readers who do not tell red from green.
"""

from feda3i.report.html.charts import diverging, figure, legend, scale, svg
from feda3i.report.html.lines import Series, lines
from feda3i.report.html.markup import Html, join, name, number, plus_minus, size, tag, text, visible
from feda3i.report.html.page import (
    Section,
    Tone,
    badge,
    bullets,
    cards,
    folded,
    notice,
    page,
    paragraph,
)
from feda3i.report.html.plane import Outline, Point, Shape, dot_key, plane
from feda3i.report.html.table import Cell, Column, facts, heat, table

__all__ = [
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
    "bullets",
    "cards",
    "diverging",
    "dot_key",
    "facts",
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
    "paragraph",
    "plane",
    "plus_minus",
    "scale",
    "size",
    "svg",
    "table",
    "tag",
    "text",
    "visible",
]
