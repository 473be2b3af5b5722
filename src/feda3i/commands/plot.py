"""``feda3i plot``: pictures of finished or running runs, from their event logs alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feda3i.errors import RecipeError, RunError

if TYPE_CHECKING:
    from feda3i.engine.events import Event


def plot(
    folders: Annotated[list[Path], typer.Argument(help="Run folders.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the pictures; default: RUN/pictures, or pictures."),
    ] = None,
    formats: Annotated[
        str, typer.Option(help="png, svg, pdf, separated by commas; svg and pdf are for papers.")
    ] = "png,svg",
) -> None:
    """Draw runs: test curves (seeds of one recipe as a band), the survey, weights by stage."""
    from feda3i.engine.events import read_events
    from feda3i.engine.run_folder import RunFolder
    from feda3i.files import FIGURES
    from feda3i.report.plots import draw_curves, draw_offsets, draw_weights
    from feda3i.report.survey_plot import draw_survey
    from feda3i.simulation.annotation import true_offsets

    target = out or (folders[0] / "pictures" if len(folders) == 1 else Path("pictures"))
    rounds = {
        folder: list(read_events(RunFolder.open(folder).events, "round")) for folder in folders
    }
    empty = [
        str(folder)
        for folder, events in rounds.items()
        if all(event.get("dice") is None for event in events)
    ]
    if empty:
        raise RunError(f"expected runs with a scored round, found none in {', '.join(empty)}")
    kinds = list(dict.fromkeys(formats.replace(" ", "").split(",")))
    unknown = [kind for kind in kinds if kind not in FIGURES]
    if unknown:
        raise RecipeError(
            f"--formats: expected {', '.join(FIGURES)}, separated by commas; found '{unknown[0]}'"
        )
    made: list[Path] = []

    def files(name: str) -> list[Path]:
        made.extend(target / f"{name}.{kind}" for kind in kinds)
        return made[-len(kinds) :]

    draw_curves(by_seed(rounds), files("curves"))
    for folder, events in rounds.items():
        mu = true_offsets(RunFolder.open(folder).manifest()["data"].get("notes", {})) or None
        stem = "" if len(folders) == 1 else f"{folder.name}-"
        if any(event.get("offsets") for event in events):
            if RunFolder.open(folder).recipe().train.patch is None:
                draw_offsets(events, files(f"{stem}offsets"), mu)
            else:  # relative to each case, while true offsets are in pixels of the cases
                draw_offsets(events, files(f"{stem}offsets"), None, "px (at 256)")
        surveys = [event["survey"] for event in events if event.get("survey")]
        if not surveys:
            continue
        start = next(read_events(RunFolder.open(folder).events, "start"))
        draw_survey(surveys[-1], files(f"{stem}survey"), mu)
        if events[-1].get("weights"):  # too few sites to judge: all keep their share of cases
            draw_weights(events[-1]["weights"], start["stages"], files(f"{stem}weights"), mu)
    for path in made:
        print(path)


def by_seed(rounds: dict[Path, list[Event]]) -> dict[str, list[list[Event]]]:
    """Return the runs by name, those that differ in nothing but the seed together."""
    from feda3i.engine.run_folder import RunFolder
    from feda3i.recipe.sections import without_machine

    alike: dict[str, list[Path]] = {}
    for folder in rounds:
        values = without_machine(RunFolder.open(folder).recipe().to_dict())
        for key in ("seed", "title", "methods"):
            values.pop(key, None)
        alike.setdefault(json.dumps(values, sort_keys=True), []).append(folder)
    named: dict[str, list[list[Event]]] = {}
    for paths in alike.values():
        title = re.sub(r", seed \d+$", "", RunFolder.open(paths[0]).recipe().title)
        name = title if len(paths) > 1 and title and title not in named else paths[0].name
        named[name if name not in named else str(paths[0])] = [rounds[path] for path in paths]
    return named
