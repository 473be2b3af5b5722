"""``feda3i track``: copy finished or running runs to TensorBoard or MLflow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from feda3i.errors import RunError, summary


def track(
    folders: Annotated[list[Path], typer.Argument(help="Run folders.")],
    to: Annotated[str, typer.Option(help="tensorboard or mlflow.")] = "tensorboard",
    target: Annotated[
        str | None,
        typer.Option(help="Folder (TensorBoard) or tracking URI (MLflow); default: their own."),
    ] = None,
) -> None:
    """Copy runs to TensorBoard or MLflow; with engine.track, a run does so itself."""
    from feda3i.engine.run_folder import RunFolder
    from feda3i.log.events import read_events
    from feda3i.tracking import open_tracker

    for path in folders:
        run = RunFolder.open(path)
        failed: list[str] = []
        title = run.recipe().title or path.name
        tracker = open_tracker([to], path, title, failed.append, first=None, target=target)
        where = [one.where for one in tracker.sinks.values()]
        try:
            for event in read_events(run.events):
                tracker.take(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(
                f"the event log '{run.events}' is damaged ({summary(error)}); restore it from a "
                f"copy"
            ) from None
        finally:
            tracker.end(run.is_done)
        if failed:
            raise RunError(f"'{path}': {failed[0].removeprefix('NOTE: ')}")
        print(f"{path}: {where[0]}")
        if not run.is_done:
            print(f"'{path}' is not done: only its rounds so far were copied", file=sys.stderr)
