"""``feda3i report``: one HTML page about one or many runs."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from feda3i.commands.app import TrustCode
from feda3i.errors import RecipeError, RunError


def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or folders of them.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; default: DIR/report.html, or report.html for several."),
    ] = None,
    gallery: Annotated[
        int,
        typer.Option(
            min=0,
            max=200,
            help="Also show this many cases, worst first; the file then contains images.",
        ),
    ] = 0,
    data: Annotated[
        Path | None,
        typer.Option(help="With --gallery: show this folder of images and masks instead."),
    ] = None,
    trust_code: TrustCode = False,
) -> None:
    """Write one HTML page about runs: results over seeds, curves, how sites draw, their weights."""
    from feda3i.report.build import NAME, write_report
    from feda3i.report.runs import find_runs, read_runs

    if data is not None and not gallery:
        raise RecipeError("--data says which cases to show: expected --gallery NUMBER beside it")
    runs, left = read_runs(find_runs(folders))
    if not runs:
        raise RunError("\n".join(left))
    for line in left:
        print(f"NOTE: {line}", file=sys.stderr)
    pictures = None
    if gallery:
        from feda3i.commands.evaluate import cases_of
        from feda3i.report.gallery import gallery_of

        load = None if data is None else lambda form: cases_of(data, form, "allow")
        pictures = gallery_of(runs, gallery, trust_code, load, partial(print, file=sys.stderr))
    name = "report-with-images.html" if pictures is not None else NAME
    target = out or (folders[0] if len(folders) == 1 else Path()) / name
    write_report(runs, target, pictures)
    print(target)


def report_at_end(runs: Sequence[Path], folder: Path, gallery: int = 0) -> Path | None:
    """Write the report of finished runs, without pixels by default; return its place.

    A finished run must not fail because of its page, so whatever goes wrong here is only reported.
    """
    from feda3i.failures import message_of
    from feda3i.report.build import NAME, write_report
    from feda3i.report.runs import read_run

    target = folder / NAME
    try:
        found, pictures = [read_run(path) for path in runs], None
        if gallery:
            from feda3i.report.gallery import gallery_of

            pictures = gallery_of(found, gallery, False, None, partial(print, file=sys.stderr))
        write_report(found, target, pictures)
    except Exception as error:
        print(f"NOTE: no report was written: {message_of(error)[0]}", file=sys.stderr)
        return None
    return target
