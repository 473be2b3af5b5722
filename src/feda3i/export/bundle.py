"""A MONAI bundle: TorchScript with its preprocessing inside, and the configuration to run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from feda3i import __version__
from feda3i.basics.files import write_file
from feda3i.core.format import Format
from feda3i.errors import RunError
from feda3i.export.exporters import Ask, need, write_torchscript
from feda3i.export.graph import Graph

MODEL = "models/model.ts"


class BatchOfOne(nn.Module):
    """The graph for MONAI: ``(1, channel, *space)`` in, ``(1, 1, *space)`` out, floats."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.size, self.channels = graph.size, graph.channels

    def forward(self, images: Tensor) -> Tensor:
        """Return the mask of the one image in the batch."""
        mask: Tensor = self.graph(images[0])
        return mask.to(torch.float32)[None, None]


def write_bundle(graph: Graph, folder: Path, about: dict[str, Any], card: str) -> Ask:
    """Write a bundle into a folder; return how its network answers when it is read again."""
    need("monai")
    if len(graph.size) != 2:
        raise RunError("a bundle is written of models of pictures; this one was trained on volumes")
    (folder / "models").mkdir(parents=True)
    (folder / "configs").mkdir()
    (folder / "docs").mkdir()
    example = torch.zeros((1, graph.channels, *(side + 3 for side in graph.size)))
    ask = write_torchscript(BatchOfOne(graph), folder / MODEL, example)
    for name, content in (("metadata", about), ("inference", inference_of(graph))):
        text = json.dumps(content, indent=2, sort_keys=False)
        write_file(folder / "configs" / f"{name}.json", text.encode())
    write_file(folder / "docs" / "README.md", card.encode())
    return lambda image: ask(image.astype(np.float32)[None])[0, 0].astype(np.uint8)


def inference_of(graph: Graph) -> dict[str, Any]:
    """Return the configuration that reads pictures, asks the network and writes PNG masks.

    MONAI turns pictures on their side when it reads and writes them: they are turned back between.
    """
    mode = "RGB" if graph.channels == 3 else "L"
    turn = {"_target_": "Transposed", "keys": "image", "indices": [0, 2, 1]}
    transforms: list[dict[str, Any]] = [
        {"_target_": "LoadImaged", "keys": "image", "reader": "PILReader", "image_only": True}
        | {"converter": f"$lambda picture: picture.convert('{mode}')"},
        {"_target_": "EnsureChannelFirstd", "keys": "image"},
        turn,
        {"_target_": "Lambdad", "keys": "image", "func": "$lambda image: image[None].float()"},
        {
            "_target_": "Lambdad",
            "keys": "image",
            "func": "$functools.partial(@inferer, network=@network_def)",
        },
        {"_target_": "Lambdad", "keys": "image", "func": "$lambda masks: masks[0]"},
        turn,
        {
            "_target_": "SaveImaged",
            "keys": "image",
            "output_dir": "@output_dir",
            "output_postfix": "mask",
            "output_ext": ".png",
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
        "datalist": "$sorted(glob.glob(@dataset_dir + '/*'))",
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


def metadata_of(form: Format, title: str, classes: list[str]) -> dict[str, Any]:
    """Return what MONAI's ``metadata.json`` says of a model."""
    import monai

    channels = {0: "grey"} if form.channels == 1 else dict(enumerate(("red", "green", "blue")))
    named = {0: "background", **{k + 1: name for k, name in enumerate(classes)}}
    image = {
        "type": "image",
        "format": "magnitude",
        "modality": "picture",
        "num_channels": form.channels,
        "spatial_shape": ["*", "*"],
        "dtype": "float32",
        "value_range": [0, 255],
        "is_patch_data": False,
        "channel_def": {str(k): name for k, name in channels.items()},
    }
    pred = {
        "type": "image",
        "format": "segmentation",
        "num_channels": 1,
        "spatial_shape": ["*", "*"],
        "dtype": "float32",
        "value_range": [0, len(classes)],
        "is_patch_data": False,
        "channel_def": {str(k): name for k, name in named.items()},
    }
    return {
        "schema": "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
        "meta_schema_20240725.json",
        "version": "1.0.0",
        "changelog": {"1.0.0": f"exported by feda3i {__version__}"},
        "monai_version": monai.__version__,
        "pytorch_version": str(torch.__version__).partition("+")[0],
        "numpy_version": np.__version__,
        "required_packages_version": {"pillow": "10"},
        "name": title,
        "task": "Segmentation of pictures",
        "description": f"{title}, trained federated with feda3i {__version__}; see docs/README.md",
        "authors": "see docs/README.md",
        "copyright": "see docs/README.md",
        "intended_use": "Research; not a medical device. See docs/README.md",
        "network_data_format": {"inputs": {"image": image}, "outputs": {"pred": pred}},
    }
