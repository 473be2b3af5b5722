"""``feda3i check``: the site doctor."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from feda3i.commands.app import AllowUnused, Classes
from feda3i.errors import RecipeError
from feda3i.values import split_names


def check(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Folder of pictures or volumes with masks, or a CSV table; or: method NAME."
        ),
    ],
    size: Annotated[
        int | None,
        typer.Option(min=16, max=4096, help="Size to train at, in pixels; volumes need none."),
    ] = None,
    classes: Classes = "",
    group: Annotated[
        str | None, typer.Option(help="Pattern for patients: '(?P<group>[^_]+)_.*'.")
    ] = None,
    allow_unused: AllowUnused = False,
    allow_outside: Annotated[
        bool, typer.Option(help="Follow links and paths that lead outside the folder.")
    ] = False,
    mail: Annotated[
        Path | None, typer.Option(help="Write a summary without names and pixels here.")
    ] = None,
    problems: Annotated[Path | None, typer.Option(help="Write all findings to this CSV.")] = None,
) -> None:
    """Check a site's folder before training (exit code 1: not fit), or a method of your own."""
    from feda3i.data.check_report import report_text, summary_text
    from feda3i.data.checkup import check_data
    from feda3i.files import write_csv, write_file

    if names[0] == "method":
        check_method(names[1:])
        return
    if len(names) > 1:
        raise RecipeError(f"expected one folder, or: method NAME; found {len(names)} arguments")
    report = check_data(
        Path(names[0]),
        size=size,
        classes=split_names(classes),
        group=group,
        unused="allow" if allow_unused else "error",
        allow_outside=allow_outside,
    )
    print(report_text(report))
    if mail is not None:
        mail.parent.mkdir(parents=True, exist_ok=True)
        write_file(mail, f"{summary_text(report)}\n".encode())
        print(f"\nsafe to mail: {mail}")
    if problems is not None:
        columns = ("level", "kind", "name", "text")
        write_csv(problems, columns, [asdict(problem) for problem in report.problems])
        print(f"all findings: {problems}")
    if not report.is_fit:
        raise typer.Exit(1)


def check_method(arguments: Sequence[str]) -> None:
    """Run the contract on a method; options as ``key=value`` after its name."""
    if not arguments:
        raise RecipeError("expected: feda3i check method NAME [key=value ...]")
    from feda3i import testing
    from feda3i.methods.base import make_method
    from feda3i.recipe import load

    name, *options = arguments
    section = load(None, [f"method={name}", *(f"method.{option}" for option in options)]).method
    make_method(section.name, section.options())
    outcome = testing.check_method(section.name, section.options())
    for promise in testing.PROMISES:
        trouble = outcome[promise.__name__]
        print(f"{'broken' if trouble else 'kept  '}  {(promise.__doc__ or '').strip()}")
        if trouble:
            print(f"        {trouble}")
    broken = sum(bool(trouble) for trouble in outcome.values())
    print(f"{len(outcome) - broken} promises kept, {broken} broken")
    if broken:
        raise typer.Exit(1)
