"""``feda3i evaluate``: score the model of a run case by case."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feda3i.commands.app import AllowUnused, BestModel, TrustCode
from feda3i.errors import DataError

if TYPE_CHECKING:
    from feda3i.core.cases import Cases
    from feda3i.core.format import Format
    from feda3i.reading.options import Unused


def evaluate(
    folder: Annotated[Path, typer.Argument(help="Run folder.")],
    data: Annotated[
        Path | None, typer.Option(help="Score on this folder of images and masks, or CSV, instead.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the scores of every case here.")] = None,
    allow_unused: AllowUnused = False,
    best: BestModel = False,
    trust_code: TrustCode = False,
) -> None:
    """Score the model of a run case by case and site by site: Dice, IoU, HD95, ASSD."""
    from feda3i.core.cases import in_own_pixels
    from feda3i.engine.model_file import open_predictor
    from feda3i.engine.scoring import join_slices, score_cases
    from feda3i.engine.transport import one_thread
    from feda3i.files import write_csv
    from feda3i.report.scores import score_lines, worst_lines

    with one_thread():
        predictor = open_predictor(folder, trust_code=trust_code, best=best)
        classes: tuple[str, ...] = ()
        if data is None:
            cases, classes = cases_of_run(folder, trust_code)
        else:
            cases = cases_of(data, predictor.format, "allow" if allow_unused else "error")
        cases, unit = in_own_pixels(cases)
        rows = join_slices(score_cases(predictor, None, cases, range(len(cases)), True))
    print(f"{len(cases)} cases, {'best model of' if best else 'model'} {folder}")
    for line in [*score_lines(rows, unit, classes), *worst_lines(rows, unit)]:
        print(line)
    if csv is not None:
        write_csv(csv, list(rows[0]), rows)
        print(f"every case: {csv}")


def cases_of_run(folder: Path, trust_code: bool = False) -> tuple[Cases, tuple[str, ...]]:
    """Return the test cases of a run and the names of their classes; they must be unchanged."""
    from feda3i.engine.manifest import check_data_kept, moved
    from feda3i.engine.results import load_run
    from feda3i.recipe.trust import check_trust
    from feda3i.simulation.federation import clean_federation

    run = load_run(folder)
    check_trust(run.recipe, folder, trust_code)
    federation = clean_federation(run.recipe)
    found = {"test": len(federation.test), "test_sha256": federation.test.digest()}
    check_data_kept(run.manifest, found, folder)
    for line in moved(run.manifest):
        print(line, file=sys.stderr)
    return federation.test, federation.classes


def reading_options(form: Format) -> dict[str, Any]:
    """Return the options of ``[data]`` with which cases are read as a model takes them."""
    kept = "kept" if form.keeps_values else "bytes"
    options: dict[str, Any] = {"channels": form.channels, "values": kept}
    if form.classes > 1:
        options["classes"] = [f"class-{k + 1}" for k in range(form.classes)]
    if form.volumes is not None:
        options |= {"volumes": form.volumes, "axis": form.axis}
    if not form.patches:
        return {**options, "size": form.shape[0]}
    wanted = {"size": form.size, "spacing": form.spacing and list(form.spacing)}
    return options | {name: value for name, value in wanted.items() if value is not None}


def cases_of(path: Path, form: Format, unused: Unused = "error") -> Cases:
    """Load a folder of images and masks as the model expects them."""
    from feda3i.data.folder import load_folder

    cases = load_folder(path, **reading_options(form), unused=unused)
    if cases.channels != form.channels:
        text = f"the model takes images of {form.channels} channels, found {cases.channels}"
        raise DataError(text)
    return cases
