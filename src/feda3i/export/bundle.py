"""A MONAI bundle: ONNX with its preprocessing inside, and the configuration to run it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feda3i import __version__
from feda3i.basics.files import write_file
from feda3i.core.format import Format
from feda3i.errors import RunError
from feda3i.export.arithmetic import takes_bytes
from feda3i.export.card import axes_of
from feda3i.export.onnx_file import need

MODEL = "models/model.onnx"
SCHEMA = (
    "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
    "meta_schema_20240725.json"
)


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
    about = metadata_of(form, title, classes)
    for name, content in (("metadata", about), ("inference", inference_of(form))):
        text = json.dumps(content, indent=2, sort_keys=False)
        write_file(folder / "configs" / f"{name}.json", text.encode())


def inference_of(form: Format) -> dict[str, Any]:
    """Return the configuration that reads images, asks the network and writes masks.

    MONAI has the axes of files in another order than feda3i: they are turned, and turned back.
    """
    there, back = axes_of(form)
    load, pattern, ending = {"reader": "NibabelReader"}, "*.nii*", ".nii.gz"
    if form.volumes is None:
        there = back = (1, 0)
        mode = "RGB" if form.channels == 3 else "L"
        converter = f"$lambda picture: picture.convert('{mode}')"
        load, pattern, ending = {"reader": "PILReader", "converter": converter}, "*", ".png"
    transforms = [
        {"_target_": "LoadImaged", "keys": "image", "image_only": True, **load},
        {"_target_": "EnsureChannelFirstd", "keys": "image"},
        _turn(there),
        {
            "_target_": "Lambdad",
            "keys": "image",
            "func": "$lambda image: "
            "monai.utils.convert_to_dst_type(@mask_of(@values_of(image))[None], image)[0]",
        },
        _turn(back),
        {
            "_target_": "SaveImaged",
            "keys": "image",
            "output_dir": "@output_dir",
            "output_postfix": "mask",
            "output_ext": ending,
            "output_dtype": "$numpy.uint8",
            "separate_folder": False,
            "resample": False,
            "print_log": False,
        },
    ]
    dtype = "uint8" if takes_bytes(form) else "float32"
    ask = "@network_def.run(['mask'], {'image': %s})[0]"
    mask_of = ask % "image"
    if form.volumes is not None and form.dimensions == 2:
        mask_of = f"numpy.stack([{ask % 'image[:, k]'} for k in range(image.shape[1])])"
    return {
        "imports": ["$import glob", "$import monai", "$import numpy", "$import onnxruntime"],
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/images'",
        "output_dir": "$@bundle_root + '/masks'",
        "datalist": f"$sorted(glob.glob(@dataset_dir + '/{pattern}'))",
        "network_def": f"$onnxruntime.InferenceSession(@bundle_root + '/{MODEL}', "
        "providers=['CPUExecutionProvider'])",
        "values_of": "$lambda image: numpy.broadcast_to("
        f"image.numpy().astype('{dtype}'), ({form.channels}, *image.shape[1:]))",
        "mask_of": f"$lambda image: {mask_of}",
        "transforms": {"_target_": "Compose", "transforms": transforms},
        "dataset": {
            "_target_": "Dataset",
            "data": "$[{'image': name} for name in @datalist]",
            "transform": "@transforms",
        },
        "run": ["$list(@dataset)"],
    }


def _turn(axes: Sequence[int]) -> dict[str, Any]:
    indices = [0, *(axis + 1 for axis in axes)]
    return {"_target_": "Transposed", "keys": "image", "indices": indices}


def metadata_of(form: Format, title: str, classes: list[str]) -> dict[str, Any]:
    """Return what MONAI's ``metadata.json`` says of a model."""
    import monai
    import onnxruntime

    is_picture = form.volumes is None
    thing, sides = ("picture", 2) if is_picture else ("volume", 3)
    channels = ["red", "green", "blue"] if is_picture and form.channels == 3 else ["grey"]

    def described(names: list[str], count: int, values: list[int], **kind: str) -> dict[str, Any]:
        return {
            "type": "image",
            **kind,
            "num_channels": count,
            "spatial_shape": ["*"] * sides,
            "dtype": "float32",
            "value_range": values,
            "is_patch_data": False,
            "channel_def": {str(k): name for k, name in enumerate(names)},
        }

    values = [0, 255] if takes_bytes(form) else []
    image = described(channels, len(channels), values, format="magnitude", modality=thing)
    named = ["background", *classes]
    pred = described(named, 1, [0, len(classes)], format="segmentation")
    return {
        "schema": SCHEMA,
        "version": "1.0.0",
        "changelog": {"1.0.0": f"exported by feda3i {__version__}"},
        "monai_version": monai.__version__,
        "pytorch_version": str(torch.__version__).partition("+")[0],
        "numpy_version": np.__version__,
        "required_packages_version": {
            "onnxruntime": onnxruntime.__version__,
            **({"pillow": "10"} if is_picture else {"nibabel": "5"}),
        },
        "name": title,
        "task": f"Segmentation of {thing}s",
        "description": f"{title}, trained federated with feda3i {__version__}; see docs/README.md",
        "authors": "see docs/README.md",
        "copyright": "see docs/README.md",
        "intended_use": "Research; not a medical device. See docs/README.md",
        "network_data_format": {"inputs": {"image": image}, "outputs": {"pred": pred}},
    }
