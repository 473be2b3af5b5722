"""A MONAI bundle: ONNX with its preprocessing inside, and the configuration to run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feda3i import __version__
from feda3i.core.format import Format
from feda3i.errors import RunError
from feda3i.export.arithmetic import takes_bytes
from feda3i.export.card import axes_of
from feda3i.export.onnx_file import need
from feda3i.files import write_file


def check_bundle(form: Format) -> None:
    """Raise ``RunError`` unless MONAI can read the files that this model takes."""
    need("monai")
    if form.volumes is None and form.dimensions == 3:
        raise RunError(
            "this model was trained on volumes that feda3i did not read from files, and it cannot "
            "tell how files become those; train with data.volumes=whole to write a bundle"
        )
    if form.volumes is not None and takes_bytes(form):
        raise RunError(
            "this model was trained on volumes scaled to bytes (data.values=bytes), which MONAI "
            "does otherwise; train with data.values=kept to write a bundle"
        )


def write_configs(folder: Path, form: Format, title: str, classes: list[str]) -> None:
    """Write ``metadata.json`` and ``inference.json`` of a bundle."""
    for name, more in (
        ("metadata", _metadata(form, title, classes)),
        ("inference", _inference(form)),
    ):
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

    thing, reader, sides = ("volume", {"nibabel": "5"}, 3)
    if form.volumes is None:
        thing, reader, sides = ("picture", {"pillow": "10"}, 2)
    colours = ["grey"] if form.volumes or form.channels == 1 else ["red", "green", "blue"]

    def described(names: list[str], channels: int, values: list[int], **kind: str) -> Any:
        return {
            "type": "image",
            **kind,
            "num_channels": channels,
            "spatial_shape": ["*"] * sides,
            "dtype": "float32",
            "value_range": values,
            "is_patch_data": False,
            "channel_def": {str(k): name for k, name in enumerate(names)},
        }

    values = [0, 255] if takes_bytes(form) else []
    image = described(colours, len(colours), values, format="magnitude", modality=thing)
    named = ["background", *classes]
    mask = described(named, 1, [0, len(classes)], format="segmentation")
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
