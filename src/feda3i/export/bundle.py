"""A MONAI bundle: TorchScript with its preprocessing inside, and the configuration to run it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from feda3i import __version__
from feda3i.basics.files import write_file
from feda3i.core.format import Format
from feda3i.errors import RunError
from feda3i.export.arithmetic import takes_bytes
from feda3i.export.card import axes_of
from feda3i.export.exporters import Ask, need, quiet, scripted, write_torchscript
from feda3i.export.graph import Graph

MODEL = "models/model.ts"
COLOURS = ["red", "green", "blue"]


class BatchOfOne(nn.Module):
    """The graph for MONAI: ``(1, channel, *space)`` in, ``(1, 1, *space)`` out, floats."""

    def __init__(self, graph: Any, form: Format) -> None:
        super().__init__()
        self.graph, self.channels = graph, form.channels

    def forward(self, images: Tensor) -> Tensor:
        """Return the mask of the one image in the batch."""
        image = images[0].expand(self.channels, *[-1] * (images.ndim - 2))
        mask: Tensor = self.graph(image)
        return mask.to(torch.float32)[None, None]


class SliceBySlice(nn.Module):
    """From a volume to its mask with a graph of single slices, as TorchScript reads it."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, volume: Tensor) -> Tensor:
        """Return the mask ``(slice, row, column)`` of ``(channel, slice, row, column)``."""
        masks: list[Tensor] = []
        for number in range(volume.shape[1]):
            masks.append(self.graph(volume[:, number]))
        return torch.stack(masks)


def write_bundle(graph: Graph, form: Format, folder: Path, about: dict[str, Any], card: str) -> Ask:
    """Write a bundle into a folder; return how its network answers when it is read again."""
    for part in ("models", "configs", "docs"):
        (folder / part).mkdir(parents=True)
    ask = write_torchscript(BatchOfOne(_whole(graph, form), form), folder / MODEL, _example(form))
    for name, content in (("metadata", about), ("inference", inference_of(form))):
        text = json.dumps(content, indent=2, sort_keys=False)
        write_file(folder / "configs" / f"{name}.json", text.encode())
    write_file(folder / "docs" / "README.md", card.encode())
    space = (slice(None), None) if _is_sliced(form) else ()  # a check shows single slices

    def answer(image: NDArray[Any]) -> NDArray[np.uint8]:
        found = ask(np.ascontiguousarray(image.astype(np.float32)[space][None]))[0, 0]
        mask: NDArray[np.uint8] = (found[0] if space else found).astype(np.uint8)
        return mask

    return answer


def check_bundle(form: Format) -> None:
    """Raise ``RunError`` unless MONAI can read the files that this model takes."""
    need("monai")
    if form.volumes is None and form.dimensions == 3:
        raise RunError(
            "this model was trained on prepared volumes (feda3i prepare --volumes), and nobody "
            "can tell how files became those; train with data.volumes=whole to write a bundle"
        )
    if form.volumes is not None:
        need("nibabel")
        if takes_bytes(form):
            raise RunError(
                "this model was trained on volumes scaled to bytes (data.values=bytes), which "
                "MONAI does otherwise; train with data.values=kept to write a bundle"
            )


def _is_sliced(form: Format) -> bool:
    return form.volumes is not None and form.dimensions == 2


def _whole(graph: Graph, form: Format) -> Any:
    """Return the graph of all that one file holds."""
    jit: Any = torch.jit  # torch leaves it untyped
    with quiet(), torch.inference_mode():
        made = scripted(graph)
        return jit.script(SliceBySlice(made)) if _is_sliced(form) else made


def _example(form: Format) -> Tensor:
    sides = [side + 3 for side in form.shape]
    return torch.zeros((1, form.channels, *([2] if _is_sliced(form) else []), *sides))


def inference_of(form: Format) -> dict[str, Any]:
    """Return the configuration that reads images, asks the network and writes masks.

    MONAI has the axes of files in another order than we: they are turned, and turned back.
    """
    there, back = axes_of(form)
    load, named, ending = {"reader": "NibabelReader"}, "*.nii*", ".nii.gz"
    if form.volumes is None:
        there = back = (1, 0)
        mode = "RGB" if form.channels == 3 else "L"
        converter = f"$lambda picture: picture.convert('{mode}')"
        load, named, ending = {"reader": "PILReader", "converter": converter}, "*", ".png"
    transforms: list[dict[str, Any]] = [
        {"_target_": "LoadImaged", "keys": "image", "image_only": True, **load},
        {"_target_": "EnsureChannelFirstd", "keys": "image"},
        _turn(there),
        {"_target_": "Lambdad", "keys": "image", "func": "$lambda image: image[None].float()"},
        {
            "_target_": "Lambdad",
            "keys": "image",
            "func": "$functools.partial(@inferer, network=@network_def)",
        },
        {"_target_": "Lambdad", "keys": "image", "func": "$lambda masks: masks[0]"},
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
    return {
        "imports": ["$import functools", "$import glob", "$import numpy", "$import torch"],
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/images'",
        "output_dir": "$@bundle_root + '/masks'",
        "device": "cpu",
        "datalist": f"$sorted(glob.glob(@dataset_dir + '/{named}'))",
        "network_def": f"$torch.jit.load(@bundle_root + '/{MODEL}', map_location=@device).eval()",
        "inferer": {"_target_": "SimpleInferer"},
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


def _described(
    names: Sequence[str], channels: int, values: list[int], sides: int, **kind: str
) -> dict[str, Any]:
    """Return what ``metadata.json`` says of an image that goes in, or of the mask."""
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


def metadata_of(form: Format, title: str, classes: list[str]) -> dict[str, Any]:
    """Return what MONAI's ``metadata.json`` says of a model."""
    import monai

    is_picture = form.volumes is None
    channels = ["grey"] if form.channels == 1 or not is_picture else COLOURS
    values = [0, 255] if takes_bytes(form) else []
    thing, sides = ("picture", 2) if is_picture else ("volume", 3)
    kind = {"format": "magnitude", "modality": thing}
    image = _described(channels, len(channels), values, sides, **kind)
    named, values = ["background", *classes], [0, len(classes)]
    pred = _described(named, 1, values, sides, format="segmentation")
    return {
        "schema": "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
        "meta_schema_20240725.json",
        "version": "1.0.0",
        "changelog": {"1.0.0": f"exported by feda3i {__version__}"},
        "monai_version": monai.__version__,
        "pytorch_version": str(torch.__version__).partition("+")[0],
        "numpy_version": np.__version__,
        "required_packages_version": {"pillow": "10"} if is_picture else {"nibabel": "5"},
        "name": title,
        "task": f"Segmentation of {thing}s",
        "description": f"{title}, trained federated with feda3i {__version__}; see docs/README.md",
        "authors": "see docs/README.md",
        "copyright": "see docs/README.md",
        "intended_use": "Research; not a medical device. See docs/README.md",
        "network_data_format": {"inputs": {"image": image}, "outputs": {"pred": pred}},
    }
