"""What all commands share: plain help for every argument, and hints that appear once.

typer 0.20, the newest that Flower allows, puts a backslash before ``[required]`` in plain help,
loses the text of positional arguments from click 8.5 on, and repeats click's "Did you mean".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import click
import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

Workers = Annotated[
    int | None, typer.Option(min=1, max=256, help="Processes; default: one per core.")
]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Changes to the recipe, e.g. rounds=3 method=fedavg.")
]
TrustCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Load the plug-ins that the file names: they run as you."),
]
BestModel = Annotated[
    bool,
    typer.Option("--best", help="Take the best model of the validation, not the last."),
]
AllowUnused = Annotated[
    bool, typer.Option("--allow-unused", help="Accept pictures that belong to no case.")
]
Classes = Annotated[
    str, typer.Option(help="Names of the mask values 1, 2, ..., separated by commas.")
]
Trusted = Annotated[
    Path | None, typer.Option(help="Folder of images whose masks are right: they define zero.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")]

typer.core.HAS_RICH = False  # else there is a backslash before [required]


class Command(TyperCommand):
    """A command whose help tells what each argument is."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        texts = argument_texts(self.callback) if self.callback else {}
        for parameter in self.params:
            if isinstance(parameter, click.Argument) and parameter.name in texts:
                # click has an attribute of this name from 8.5 on; before, typer set its own.
                setattr(parameter, "help", texts[parameter.name])  # noqa: B010

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: click 8.5 asks for arguments apart, and typer writes them itself."""


class CommandGroup(TyperGroup):
    """A group of commands that suggests the nearest name once."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; click, or else typer, suggests the nearest name."""
        self.suggest_commands = not hasattr(click, "NoSuchCommand")
        return super().resolve_command(ctx, args)


class App(typer.Typer):
    """A typer application made of these commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Add a function as a command."""
        return super().command(name, **{"cls": Command, **options})


def argument_texts(function: Callable[..., Any]) -> dict[str, str]:
    """Return the help text of each positional argument of a command's function."""
    hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    return {
        name: information.help
        for name, hint in hints.items()
        for information in getattr(hint, "__metadata__", ())
        if isinstance(information, ArgumentInfo) and information.help
    }
