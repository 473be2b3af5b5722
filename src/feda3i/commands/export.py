"""``feda3i export``: a run's model in formats that other programs read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer

from feda3i.commands.app import BestModel, TrustCode
from feda3i.errors import RunError

Kind = Literal["onnx", "torchscript", "torch-export", "monai-bundle"]
FILES = {"onnx": "model.onnx", "torchscript": "model.ts", "torch-export": "model.pt2"}


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
    from feda3i.basics.files import write_file
    from feda3i.engine.model_file import open_predictor
    from feda3i.engine.results import load_run
    from feda3i.engine.transport import one_thread
    from feda3i.export import bundle, exporters
    from feda3i.export.card import model_card
    from feda3i.export.graph import graph_of

    target = out or folder / f"export-{to}"
    if target.exists():
        raise RunError(f"'{target}' is already there; remove it, or choose another with --out")
    run = load_run(folder)
    with one_thread():
        predictor = open_predictor(folder, trust_code=trust_code, best=best)
        form = predictor.format
        if to == "monai-bundle":
            bundle.check_bundle(form)
        graph = graph_of(predictor)
        card = model_card(run, to, form, best)
        beside = target.with_name(f".{target.name}.new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        try:
            if to == "monai-bundle":
                classes = [str(name) for name in run.manifest["data"].get("classes", ["object"])]
                title = run.recipe.title or folder.name
                about = bundle.metadata_of(form, title, classes)
                ask = bundle.write_bundle(graph, form, beside, about, card)
            else:
                write = {
                    "onnx": exporters.write_onnx,
                    "torchscript": exporters.write_torchscript,
                    "torch-export": exporters.write_torch_export,
                }[to]
                ask = write(graph, beside / FILES[to])
                write_file(beside / "README.md", card.encode())
            differing, total, empty = exporters.check_alike(ask, predictor, to)
            beside.rename(target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    print(f"{to}  {target / FILES.get(to, '')}")
    print(f"card  {target / ('docs/README.md' if to == 'monai-bundle' else 'README.md')}")
    print(f"checked against feda3i predict: {differing} of {total} pixels differ")
    if empty in (0, total):
        print("note: those images show the model no border; compare on images of its own kind, too")
