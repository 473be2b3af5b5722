"""Make docs/reference/recipe-keys.md from the code: python docs/make_keys.py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from feda3i.commands.keys import Key, all_keys, listed_once

PAGE = Path(__file__).parent / "reference" / "recipe-keys.md"
HEAD = """# All keys of a recipe

Made from the code by `python docs/make_keys.py`; `feda3i explain KEY` prints one. A recipe is a
TOML file; every key can be changed on the command line with `key=value`. `data=NAME` is short for
`data.name=NAME`, and so are `noise=`, `model=` and `method=`. Options of a method can be given as
`feda3i.t1=4`; they are ignored, with a note, when another method is chosen.

## In every recipe
"""
SECTIONS = {
    "data": "Options of data sets",
    "noise": "Options of noise",
    "model": "Options of networks",
    "method": "Options of methods",
}
MONAI = """
Options of MONAI's networks go to MONAI's constructor as they are; its `channels` is called
`features` here. `model.input` works for every network.
"""


def page() -> str:
    """Return the page: the keys that all recipes have, then each option with who takes it."""
    keys = all_keys()
    parts = [HEAD, table(key for key in keys if not key.owner)]
    for section, title in SECTIONS.items():
        own = [k for k in keys if k.owner and k.name.startswith(f"{section}.")]
        parts += [f"\n## {title}\n", table(listed_once(own), "of")]
        parts += [MONAI] if section == "model" else []
    return "".join(parts)


def table(keys: Iterable[Key], *more: str) -> str:
    """Return a table of keys, with their owners if there is a further column for them."""
    titles = ("key", *more, "takes", "default", "meaning")
    rows = ["", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for key in keys:
        cells = (*([key.owner] if more else []), key.takes, key.default, key.meaning)
        rows.append(f"| `{key.name}` | " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
