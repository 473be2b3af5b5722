"""Read examples in docstrings as examples, for the API page of the site (see mkdocs.yml)."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Give examples without a heading one; write references as code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the text of a docstring before it is parsed."""
        if obj.docstring is None:
            return
        text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", obj.docstring.value)
        if not re.search(r"^Examples\n-+$", text, re.M):
            text = re.sub(r"^(?=>>> )", "Examples\n--------\n", text, count=1, flags=re.M)
        obj.docstring.value = text
