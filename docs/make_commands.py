"""Make docs/reference/commands.md from the command line: python docs/make_commands.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import typer

from feda3i.cli import app

PAGE = Path(__file__).parent / "reference" / "commands.md"
HEAD = """# Commands

`feda3i COMMAND --help` prints the same. Exit codes: 0 fine, 1 failure, 2 wrong usage, 130
interrupted. (`python docs/make_commands.py`)
"""


def page() -> str:
    """Return the page: every command with its arguments and options."""
    return HEAD + "".join(
        section(name, command) for name, command in commands("feda3i", typer.main.get_command(app))
    )


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands below a group, and those of the groups in it."""
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            yield from commands(f"{name} {word}", inner)
    else:
        yield name, command


def section(name: str, command: click.Command) -> str:
    """Return the section of one command."""
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    rows = [cells for p in command.get_params(context) if (cells := p.get_help_record(context))]
    shown = [f"| `{left.replace('|', chr(92) + '|')}` | {plain(right)} |" for left, right in rows]
    table = "\n".join(["", "| | |", "|---|---|", *shown, ""]) if shown else ""
    return f"\n## {name}\n\n{plain(command.help or '')}\n\n```sh\n{usage}\n```\n{table}"


def plain(text: str) -> str:
    """Return help on one line, with signs that Markdown reads written as they are."""
    joined = " ".join(text.split())
    for sign in "\\|*_<[":
        joined = joined.replace(sign, f"\\{sign}")
    return joined


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
