"""What all commands share: plain help for every argument, and hints that appear once.

typer 0.20, the newest that Flower allows, puts a backslash before ``[required]`` in plain help,
loses the text of positional arguments from click 8.5 on, and repeats click's "Did you mean".
"""

from pathlib import Path
from typing import Annotated, Any

import click
import typer
from typer.core import TyperArgument, TyperCommand

Overrides = Annotated[
    list[str] | None, typer.Argument(help="Changes to the recipe, e.g. rounds=3 method=fedavg.")
]
TrustCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Load the plug-ins that the file names: they run as you."),
]
BestModel = Annotated[
    bool, typer.Option("--best", help="Take the best model of the validation, not the last.")
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


class _Argument(TyperArgument):
    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.help = attributes.get("help")


setattr(typer.main, "TyperArgument", _Argument)  # noqa: B010
# click 8.5 lists arguments apart, and typer lists them itself.
setattr(TyperCommand, "format_arguments", lambda *_: None)  # noqa: B010


def new_app(**options: Any) -> typer.Typer:
    """Return a group of commands with plain help and one hint for a misspelt command."""
    return typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        suggest_commands=not hasattr(click, "NoSuchCommand"),
        **options,
    )
