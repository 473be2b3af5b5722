"""Networks by name: ``unet``, ``monai:SegResNet``, ``package.module:factory``, ``file.py:factory``.

Nothing here imports torch before a network is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from feda3i.errors import FedA3IError, RecipeError, check_option, shown, summary
from feda3i.failures import is_out_of_memory
from feda3i.ram import check_fits
from feda3i.registry import Registry, declares, load_object
from feda3i.values import keywords_of, takes_any_keyword

if TYPE_CHECKING:
    from torch import nn

_MONAI = "feda3i.models.monai_networks:factory"
_GIVEN = ("channels", "classes", "shape", "dimensions")


@dataclass(frozen=True)
class ModelRegistry(Registry):
    """The registry of networks; ``monai:`` is a family of names, not a module path."""

    def get(self, name: str) -> Any:
        """Return the factory with this name."""
        if name.startswith("monai:"):
            return load_object(_MONAI, self.kind)(name)
        return super().get(name)


REGISTRY = ModelRegistry(
    kind="model",
    builtin={
        "unet": "feda3i.models.unet:UNet",
        **{f"monai:{n}": _MONAI for n in ("AttentionUnet", "SegResNet", "SwinUNETR", "UNet")},
    },
    entry_points="feda3i.models",
)


def build(
    name: str,
    *,
    channels: int,
    classes: int,
    shape: Sequence[int],
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Build a network that maps images of 0..255 to logits ``(case, class, *space)``.

    A factory is called with ``channels``, ``classes`` (of foreground), ``shape`` in space and
    ``dimensions`` as far as its signature takes them. The option ``input`` works for every network:
    ``"normalised"`` (default) feeds (x - 128) / 64, ``"paper"`` raw intensities.

    >>> build("unet", channels=1, classes=2, shape=(32, 32), options={"width": 4}).outc
    Conv2d(4, 2, kernel_size=(1, 1), stride=(1, 1))
    """
    from feda3i.models.unet import normalised

    if len(shape) not in (2, 3) or min(shape, default=0) < 16:
        wanted = "cases of two or three dimensions and at least 16 px per side"
        raise RecipeError(f"model '{name}': expected {wanted}, found {tuple(shape)}")
    factory = REGISTRY.get(name)
    if REGISTRY.is_code(name):
        _check_factory(name, factory)
    options = dict(options or {})
    given = dict(zip(_GIVEN, (channels, classes, tuple(shape), len(shape)), strict=True))
    check_memory(name, shape, options)
    scales_itself = "input" in keywords_of(factory)
    scaling = "paper" if scales_itself else options.pop("input", "normalised")
    return normalised(_call(name, factory, given, options), scaling)


def check_memory(
    name: str, shape: Sequence[int], options: Mapping[str, Any], cases: int = 0
) -> None:
    """Raise ``RecipeError`` if a network that tells its footprint needs more memory than there is.

    ``cases`` are those of a training step; 0 for a pass without training.
    """
    width = options.get("width", 16)
    footprint = getattr(REGISTRY.get(name), "footprint", None)
    if footprint is not None and isinstance(width, int) and width > 0:
        size = " x ".join(map(str, shape))
        what = f"model '{name}' of width {width}, {cases or 1} x {size} px at once"
        check_fits(what, footprint(shape, cases, width), "use a smaller width, size or batch")


def _check_factory(name: str, factory: Any) -> None:
    """Raise ``RecipeError`` before anything is called that cannot be a factory of networks."""
    from torch import nn

    if not callable(factory):
        raise RecipeError(f"model '{name}': expected a function or class, found {factory!r}")
    takes = not {*keywords_of(factory)}.isdisjoint(_GIVEN) or declares(factory, nn.Module)
    if not (issubclass(factory, nn.Module) if isinstance(factory, type) else takes):
        raise RecipeError(
            f"model '{name}': expected a subclass of torch.nn.Module, or a function that says "
            f"'-> nn.Module' or takes one of {', '.join(_GIVEN)}; found {factory!r}"
        )


def _call(
    name: str, factory: Callable[..., Any], given: dict[str, Any], options: dict[str, Any]
) -> nn.Module:
    from torch import nn

    named = keywords_of(factory)
    for option in options:
        if option in given:
            raise RecipeError(f"model '{name}': {option} comes from the data, do not set it")
        if not takes_any_keyword(factory):
            known = sorted({*named, "input"} - set(given))
            check_option(f"model '{name}'", option, known)
    # A factory with **options still gets only what it names: it may forward them anywhere.
    arguments = {key: value for key, value in given.items() if key in named}
    try:
        module = factory(**arguments, **options)
    except FedA3IError:
        raise
    except Exception as error:  # other people's networks fail in their own ways
        if is_out_of_memory(error):
            raise
        raise RecipeError(
            f"model '{name}' could not be built with {shown(arguments | options)}: {summary(error)}"
        ) from error
    if not isinstance(module, nn.Module):
        found = type(module).__name__
        raise RecipeError(f"model '{name}': expected a torch.nn.Module from it, found {found}")
    return module
