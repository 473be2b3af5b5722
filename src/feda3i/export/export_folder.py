"""The folder of an export: model, card and, for MONAI, configuration."""

from __future__ import annotations

from pathlib import Path

from feda3i.core.predictor import Predictor
from feda3i.engine.results import LoadedRun
from feda3i.export.bundle import check_bundle, write_configs
from feda3i.export.card import class_names, model_card
from feda3i.export.graph import graph_of
from feda3i.export.onnx_file import check_masks, write_onnx
from feda3i.files import write_file


def write_export(
    run: LoadedRun, predictor: Predictor, folder: Path, kind: str, best: bool = False
) -> tuple[int, int, int]:
    """Write an export (``"onnx"`` or ``"monai-bundle"``); return what ``check_masks`` found."""
    form, is_bundle = predictor.format, kind == "monai-bundle"
    if is_bundle:
        check_bundle(form)
    graph = graph_of(predictor)
    model, card = folder / "model.onnx", folder / "README.md"
    if is_bundle:
        model, card = folder / "models" / "model.onnx", folder / "docs" / "README.md"
        (folder / "configs").mkdir(parents=True)
        write_configs(folder / "configs", form, run.recipe.title or run.path.name, class_names(run))
    for path in (model, card):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(card, model_card(run, kind, form, best).encode())
    return check_masks(write_onnx(graph, model), predictor)
