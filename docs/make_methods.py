"""Make docs/methods.md from the method cards: python docs/make_methods.py."""

from __future__ import annotations

from pathlib import Path

from feda3i.commands.explain import method_card
from feda3i.methods import REGISTRY

PAGE = Path(__file__).with_name("methods.md")
HEAD = """# Methods

Made from the method cards by `python docs/make_methods.py`; `feda3i explain NAME` prints one card.
Every method runs with `method=NAME`; options with `method.OPTION=VALUE`.
"""


def page() -> str:
    """Return the page: one section per method."""
    parts = [HEAD]
    for name in REGISTRY.names():
        title, _, rest = method_card(name).partition("\n")
        parts.append(f"\n## {name}\n\n{title}\n\n```text\n{rest.strip()}\n```\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
