"""Pages as a browser reads them, and texts that try to be more than text."""

import re
from html.parser import HTMLParser

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title><script>alert(1)</script>",
    "]]><!--",
    "{{ 7 * 7 }}{% include 'page.js' %}",
    "\u202egnp.exe\u202c",
    "a\x00b\x1b[31mc",
    "&lt;b&gt; &amp;",
    "javascript:alert(1)",
    "שלום עולם",
    "\ud800 lone",
    "x" * 3000,
]


class Reader(HTMLParser):
    """What a browser makes of a page: elements, their attributes, and text."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


def read(markup):
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


def check_inert(page):
    """Nothing in a page can run but its own script; nothing turns or hides letters."""
    reader = read(page)
    assert reader.tags.count("script") == 1
    assert "img" not in reader.tags
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x01\x1b]", page)
    return "".join(reader.texts)
