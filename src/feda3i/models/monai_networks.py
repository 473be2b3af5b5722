"""Networks of MONAI with small defaults for images of any size, two or three dimensions in space.

Options go to MONAI's constructor as they are, except that its ``channels`` (feature maps per level)
is called ``features`` here: a recipe's channels are those of the image.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from monai.networks import nets
from torch import nn

from feda3i.errors import RecipeError, check_option, nearest

NETWORKS = ("AttentionUnet", "SegResNet", "SwinUNETR", "UNet")
_GIVEN = {"in_channels", "out_channels", "spatial_dims"}


def factory(name: str) -> Callable[..., nn.Module]:
    """Return the factory ``(channels, classes, shape, **options)`` of ``monai:<Name>``."""
    network = name.removeprefix("monai:")
    if network not in NETWORKS:
        raise RecipeError(
            f"unknown model '{name}'{nearest(network, NETWORKS)} "
            f"Known: {', '.join(f'monai:{known}' for known in NETWORKS)}; "
            "any other network can be given as 'package.module:factory'"
        )
    return partial(make, network)


def make(
    network: str, *, channels: int, classes: int, shape: Sequence[int], **options: Any
) -> nn.Module:
    """Build one of ``NETWORKS`` for images of this size; unset options get defaults that fit it."""
    constructor = getattr(nets, network)
    known = {"features" if name == "channels" else name for name in _parameters(constructor)}
    known -= _GIVEN
    for option in options:
        check_option(f"model 'monai:{network}'", option, sorted(known))
    settings = {**_defaults(network, shape, options), **options}
    if "features" in settings:
        settings["channels"] = settings.pop("features")
    module: nn.Module = constructor(
        in_channels=channels, out_channels=classes, spatial_dims=len(shape), **settings
    )
    name_stages(network, module)
    return module


def name_stages(network: str, module: nn.Module) -> None:
    """Let the network name its stages: one per level down, one per level up, like the U-Net's.

    A version of MONAI with other modules is left without names, and ``find_stages`` looks itself.
    """
    keys = list(module.state_dict())

    def within(path: str) -> list[str]:
        return [key for key in keys if key.startswith(f"{path}.")]

    stages = {
        name: tuple(path for path in paths if within(path))
        for name, paths in _LEVELS[network](module).items()
    }
    stages = {name: paths for name, paths in stages.items() if paths}
    held = [key for paths in stages.values() for path in paths for key in within(path)]
    if sorted(held) == sorted(keys):
        module.stages = stages  # type: ignore[assignment]  # torch: a tensor or a module


def _unet(module: nn.Module) -> dict[str, list[str]]:
    """Follow the nested triples (down, rest, up) to the bottom."""
    down, up = [], []
    path = "model"
    while isinstance(level := module.get_submodule(path), nn.Sequential) and len(level) == 3:
        down.append(f"{path}.0")
        up.append(f"{path}.2")
        path = f"{path}.1.submodule"
    return _named(down=down, bottom=[path], up=up[::-1])


def _attention_unet(module: nn.Module) -> dict[str, list[str]]:
    down: list[str] = []
    up: list[list[str]] = []
    path = "model.1"
    while hasattr(level := module.get_submodule(path), "submodule"):
        up.append([f"{path}.{part}" for part in ("upconv", "attention", "merge")])
        path = f"{path}.submodule"
        if isinstance(level.submodule, nn.Sequential):
            down.append(f"{path}.0")
            path = f"{path}.1"
    return _named(inc=["model.0"], down=down, bottom=[path], up=up[::-1], out=["model.2"])


def _segresnet(module: nn.Module) -> dict[str, list[str]]:
    down = [f"down_layers.{k}" for k in range(len(module.get_submodule("down_layers")))]  # type: ignore[arg-type]
    levels = len(module.get_submodule("up_layers"))  # type: ignore[arg-type]
    up = [[f"up_samples.{k}", f"up_layers.{k}"] for k in range(levels)]
    return _named(inc=["convInit"], down=down, up=up, out=["conv_final"])


def _swin_unetr(module: nn.Module) -> dict[str, list[str]]:
    """Put each level of the transformer together with the encoder that hands it on."""
    embed = ["swinViT.patch_embed", "encoder2"]
    down = [[f"swinViT.layers{k}", f"swinViT.layers{k}c", f"encoder{k + 2}"] for k in (1, 2, 3)]
    bottom = ["swinViT.layers4", "swinViT.layers4c", "encoder10"]
    up = [f"decoder{k}" for k in (5, 4, 3, 2, 1)]
    return _named(inc=["encoder1"], down=[embed, *down], bottom=bottom, up=up, out=["out"])


def _named(**parts: Sequence[str | list[str]]) -> dict[str, list[str]]:
    """Return one stage per level, ``down1``, ``down2``, ..., and one for each other part."""
    stages: dict[str, list[str]] = {}
    for name, paths in parts.items():
        if name not in ("down", "up"):
            stages[name] = [path for path in paths if isinstance(path, str)]
            continue
        for number, path in enumerate(paths, start=1):
            stages[f"{name}{number}"] = [path] if isinstance(path, str) else path
    return stages


_LEVELS: dict[str, Callable[[nn.Module], dict[str, list[str]]]] = {
    "AttentionUnet": _attention_unet,
    "SegResNet": _segresnet,
    "SwinUNETR": _swin_unetr,
    "UNet": _unet,
}


def _parameters(constructor: type[nn.Module]) -> list[str]:
    # Not inspect.signature(constructor): MONAI 1.4 wraps some classes in deprecation decorators.
    return [name for name in inspect.signature(constructor.__init__).parameters if name != "self"]


def _defaults(network: str, shape: Sequence[int], options: dict[str, Any]) -> dict[str, Any]:
    if network == "SwinUNETR":
        if any(side < 64 or side % 32 for side in shape):
            raise RecipeError(
                "model 'monai:SwinUNETR' needs sides of 64 px or more that are multiples of 32, "
                f"found {tuple(shape)}; resize the cases or choose another network"
            )
        return {"feature_size": 12}
    if network == "SegResNet":
        halvings = len(options["blocks_down"]) - 1 if "blocks_down" in options else _fit(shape, 3)
        return {
            "init_filters": 16,
            "blocks_down": (1, 2, 2, 4)[: halvings + 1],
            "blocks_up": (1,) * halvings,
        }
    levels = len(options["features"]) if "features" in options else _fit(shape, 4) + 1
    settings = {"features": (16, 32, 64, 128, 256)[:levels], "strides": (2,) * (levels - 1)}
    return {**settings, "num_res_units": 2} if network == "UNet" else settings


def _fit(shape: Sequence[int], most: int) -> int:
    """Return how often all sides can be halved exactly and keep two pixels, at most ``most``."""
    halvings = 0
    while halvings < most and all(
        side % 2 ** (halvings + 1) == 0 and side >= 2 ** (halvings + 2) for side in shape
    ):
        halvings += 1
    if halvings == 0:
        raise RecipeError(
            f"this network halves the image and needs even sides, found {tuple(shape)}; "
            "resize the cases or use model 'unet', which takes any size from 16"
        )
    return halvings
