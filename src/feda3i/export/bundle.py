"""The folder of an export: ONNX with its preprocessing inside, a card, MONAI's configuration."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feda3i import __version__
from feda3i.core.format import Format
from feda3i.core.predictor import Predictor
from feda3i.engine.results import LoadedRun
from feda3i.errors import RunError
from feda3i.export.arithmetic import takes_bytes
from feda3i.export.card import axes_of, class_names, model_card
from feda3i.export.graph import graph_of
from feda3i.export.onnx_file import check_masks, need, write_onnx
from feda3i.files import write_file


def write_export(
    run: LoadedRun, predictor: Predictor, folder: Path, kind: str, best: bool = False
) -> tuple[int, int, int]:
    """Write an export (``"onnx"`` or ``"monai-bundle"``); return what ``check_masks`` found."""
    form, is_bundle = predictor.format, kind == "monai-bundle"
    if is_bundle:
        check_bundle(form)
    graph = graph_of(predictor)
    model, card, configs = folder / "model.onnx", folder / "README.md", folder / "configs"
    if is_bundle:
        model, card = folder / "models" / "model.onnx", folder / "docs" / "README.md"
        configs.mkdir(parents=True)
        write_configs(configs, form, run.recipe.title or run.path.name, class_names(run))
    for path in (model, card):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(card, model_card(run, kind, form, best).encode())
    return check_masks(write_onnx(graph, model), predictor)


def check_bundle(form: Format) -> None:
    """Raise ``RunError`` unless MONAI can read the files that this model takes."""
    need("monai")
    if form.volumes is None and form.dimensions == 3:
        raise RunError(
            "nothing tells how the volumes that this model was trained on are made from files; "
            "train with data.volumes=whole to write a bundle"
        )
    if form.volumes is not None and takes_bytes(form):
        raise RunError(
            "this model was trained on volumes scaled to bytes (data.values=bytes), which MONAI "
            "does otherwise; train with data.values=kept to write a bundle"
        )


def write_configs(folder: Path, form: Format, title: str, classes: list[str]) -> None:
    """Write ``metadata.json`` and ``inference.json`` of a bundle."""
    made = {"metadata": _metadata(form, title, classes), "inference": _inference(form)}
    for name, more in made.items():
        common = json.loads(Path(__file__).with_name(f"{name}.json").read_text("utf-8"))
        write_file(folder / f"{name}.json", json.dumps(common | more, indent=2).encode())


def _inference(form: Format) -> dict[str, Any]:
    """Return what ``inference.json`` refers to.

    MONAI has the axes of files in another order than feda3i: they are turned, and turned back.
    """
    there, back = axes_of(form) if form.volumes else ((1, 0), (1, 0))
    mode = "RGB" if form.channels == 3 else "L"
    converter = f"$lambda picture: picture.convert('{mode}')"
    reader = {"reader": "PILReader", "converter": converter}
    if form.volumes:
        reader = {"reader": "NibabelReader"}
    return {
        "load": {"_target_": "LoadImaged", "keys": "image", "image_only": True, **reader},
        "files": "*.nii*" if form.volumes else "*",
        "ending": ".nii.gz" if form.volumes else ".png",
        "axes": [0, *(axis + 1 for axis in there)],
        "axes_back": [0, *(axis + 1 for axis in back)],
        "channels": form.channels,
        "dtype": "uint8" if takes_bytes(form) else "float32",
        "by_slice": form.volumes is not None and form.dimensions == 2,
    }


def _metadata(form: Format, title: str, classes: list[str]) -> dict[str, Any]:
    import monai
    import onnxruntime

    thing, reader, sides = "picture", {"pillow": "10"}, 2
    if form.volumes is not None:
        thing, reader, sides = "volume", {"nibabel": "5"}, 3
    colours = ["grey"] if form.volumes or form.channels == 1 else ["red", "green", "blue"]
    common = {"type": "image", "spatial_shape": ["*"] * sides, "dtype": "float32"}
    image = {
        **common,
        "format": "magnitude",
        "modality": thing,
        "num_channels": len(colours),
        "value_range": [0, 255] if takes_bytes(form) else [],
        "is_patch_data": False,
        "channel_def": dict(enumerate(colours)),
    }
    mask = {
        **common,
        "format": "segmentation",
        "num_channels": 1,
        "value_range": [0, len(classes)],
        "is_patch_data": False,
        "channel_def": dict(enumerate(["background", *classes])),
    }
    return {
        "changelog": {"1.0.0": f"exported by feda3i {__version__}"},
        "monai_version": monai.__version__,
        "pytorch_version": str(torch.__version__).partition("+")[0],
        "numpy_version": np.__version__,
        "required_packages_version": {"onnxruntime": onnxruntime.__version__, **reader},
        "name": title,
        "task": f"Segmentation of {thing}s",
        "description": f"{title}, trained federated with feda3i {__version__}; see docs/README.md",
        "network_data_format": {"inputs": {"image": image}, "outputs": {"pred": mask}},
    }
