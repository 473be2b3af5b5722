"""``feda3i export``: a run's model in formats that other programs read."""

import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer

from feda3i.commands.app import BestModel, TrustCode
from feda3i.errors import RunError

Kind = Literal["onnx", "monai-bundle"]


def export(
    folder: Annotated[Path, typer.Argument(help="Run folder.")],
    to: Annotated[Kind, typer.Option(help="Format.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to make; default: RUN/export-FORMAT.")
    ] = None,
    best: BestModel = False,
    trust_code: TrustCode = False,
) -> None:
    """Write a run's model, preprocessing included, with a model card; its masks are checked."""
    from feda3i.engine.results import load_run
    from feda3i.engine.transport import one_thread
    from feda3i.export.bundle import write_export

    target = out or folder / f"export-{to}"
    if target.exists():
        raise RunError(f"'{target}' is already there; remove it, or choose another with --out")
    run = load_run(folder)
    beside = target.with_name(f".{target.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        with one_thread():
            predictor = run.predictor(trust_code=trust_code, best=best)
            differing, total, empty = write_export(run, predictor, beside, to, best)
        beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    is_bundle = to == "monai-bundle"
    print(f"{to}  {target if is_bundle else target / 'model.onnx'}")
    print(f"card  {target / ('docs/README.md' if is_bundle else 'README.md')}")
    print(f"checked against feda3i predict: {differing} of {total} pixels differ")
    if empty in (0, total):
        print("note: those images show the model no border; compare on images of its own kind, too")
