"""Networks of MONAI with small defaults for images of any size, two or three dimensions in space.

Options go to MONAI's constructor as they are, except that its ``channels`` (feature maps per level)
is called ``features`` here: a recipe's channels are those of the image.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from monai.networks import nets
from torch import nn

from feda3i.errors import RecipeError, check_option, unknown

NETWORKS = ("AttentionUnet", "SegResNet", "SwinUNETR", "UNet")
_GIVEN = {"self", "in_channels", "out_channels", "spatial_dims"}


def factory(name: str) -> Callable[..., nn.Module]:
    """Return the factory ``(channels, classes, shape, **options)`` of ``monai:<Name>``."""
    network = name.removeprefix("monai:")
    if network not in NETWORKS:
        hint = "; any other network can be given as 'package.module:factory'"
        raise unknown("network of MONAI", network, NETWORKS, hint)
    return partial(make, network)


def make(
    network: str, *, channels: int, classes: int, shape: Sequence[int], **options: Any
) -> nn.Module:
    """Build one of ``NETWORKS`` for images of this size; unset options get defaults that fit it."""
    constructor = getattr(nets, network)
    # Not inspect.signature(constructor): MONAI 1.4 wraps some classes in deprecation decorators.
    named = inspect.signature(constructor.__init__).parameters
    known = {"features" if name == "channels" else name for name in named} - _GIVEN
    for option in options:
        check_option(f"model 'monai:{network}'", option, sorted(known))
    settings = {**_defaults(network, shape, options), **options}
    if "features" in settings:
        settings["channels"] = settings.pop("features")
    made: nn.Module = constructor(
        in_channels=channels, out_channels=classes, spatial_dims=len(shape), **settings
    )
    return made


def _defaults(network: str, shape: Sequence[int], options: dict[str, Any]) -> dict[str, Any]:
    if network == "SwinUNETR":
        if any(side < 64 or side % 32 for side in shape):
            needs = "sides of 64 px or more that are multiples of 32; resize the cases"
            raise RecipeError(f"model 'monai:SwinUNETR' needs {needs}, found {tuple(shape)}")
        return {"feature_size": 12}
    if network == "SegResNet":
        halvings = len(options["blocks_down"]) - 1 if "blocks_down" in options else _fit(shape, 3)
        blocks = {"blocks_down": (1, 2, 2, 4)[: halvings + 1], "blocks_up": (1,) * halvings}
        return {"init_filters": 16, **blocks}
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
