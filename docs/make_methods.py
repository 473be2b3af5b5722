"""Make docs/reference/methods/ from the method cards: python docs/make_methods.py."""

from __future__ import annotations

import re
from pathlib import Path

from feda3i.commands.explain import method_card
from feda3i.methods import REGISTRY

FOLDER = Path(__file__).parent / "reference" / "methods"
HEAD = """# Methods

Every method runs with `method=NAME`, its options with `method.OPTION=VALUE`.
`feda3i explain NAME` prints what its page says. (`python docs/make_methods.py`)

| method | |
|---|---|
"""


def pages() -> dict[Path, str]:
    """Return the list of methods and the page of each."""
    found = {FOLDER / "index.md": HEAD}
    for name in REGISTRY.names():
        title, _, card = method_card(name).partition("\n")
        found[FOLDER / "index.md"] += f"| [{name}]({name}.md) | {escaped(title)} |\n"
        found[FOLDER / f"{name}.md"] = f"# {name}\n\n{escaped(title)}\n{sections(card)}"
    return found


def sections(card: str) -> str:
    """Return a card as Markdown: lines at the margin are headings, options are a table."""
    parts = []
    for part in re.split(r"\n(?=\S)", card.strip()):
        heading, _, body = part.partition("\n")
        if heading.startswith("Options"):
            parts.append(f"\n## Options\n\n{options(body)}")
        else:
            lines = (escaped(line[4:]) for line in body.strip("\n").split("\n"))
            parts.append(f"\n## {heading}\n\n" + "\n".join(lines).replace("\n    ", "\n") + "\n")
    return "".join(parts)


def options(body: str) -> str:
    """Return the options of a card as a table."""
    rows = ["| option | default | takes | meaning |", "|---|---|---|---|"]
    for block in re.split(r"\n(?= {4}\S)", body):
        first, *meaning = (line.strip() for line in block.strip().split("\n"))
        found = re.fullmatch(r"(\w+) = (.*?) \((.*)\)", first)
        if found:
            told = escaped(" ".join(meaning)).replace("|", "\\|")
            rows.append(f"| `{found[1]}` | `{found[2]}` | {escaped(found[3])} | {told} |")
    return "\n".join(rows) + "\n"


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, with code in backticks."""
    halves = text.replace("``", "`").split("`")
    if len(halves) % 2 == 0:  # code that goes on in the next line stays as it is
        return text.replace("``", "`")
    halves[::2] = [re.sub(r"([*_<\[])", r"\\\1", half) for half in halves[::2]]
    return "`".join(halves)


def main() -> None:
    """Write the pages, and remove those of methods that are gone."""
    made = pages()
    FOLDER.mkdir(exist_ok=True)
    for old in set(FOLDER.glob("*.md")) - set(made):
        old.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
