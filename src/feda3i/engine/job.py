"""A recipe made concrete: the method object, the network it trains and how its state is laid out.

Server and sites each build the same job from the same recipe; nothing of it travels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from feda3i.core.layout import Layout
from feda3i.errors import RecipeError
from feda3i.recipe import Recipe
from feda3i.seeding import derive

if TYPE_CHECKING:
    import torch
    from torch import nn

    from feda3i.methods.base import Method


@dataclass(frozen=True)
class Job:
    """What a run trains: needs the data's number of channels, classes and size in space."""

    recipe: Recipe
    channels: int
    classes: int
    shape: tuple[int, ...]

    @cached_property
    def method(self) -> Method:
        """Return the method with the recipe's hyper-parameters."""
        from feda3i.methods.base import make_method

        return make_method(self.recipe.method.name, self.recipe.method.options())

    def network(self) -> nn.Module:
        """Build the method's network with the initialisation of the run's seed."""
        return self.method.network(self._build)

    def _build(self, number: int) -> nn.Module:
        import torch

        from feda3i import models

        model = self.recipe.model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self.recipe.seed, "init", number) & (2**63 - 1))
            return models.build(
                model.name,
                channels=self.channels,
                classes=self.classes,
                shape=self.shape,
                options=model.options(),
            )

    def check_memory(self, cases: int) -> None:
        """Raise ``RecipeError`` if a step of a site with so many cases cannot fit into memory."""
        from feda3i import models

        model, batch = self.recipe.model, min(cases, self.recipe.train.batch)
        models.check_memory(model.name, self.shape, model.options(), batch)

    def layout(self, network: nn.Module) -> Layout:
        """Return where the network's tensors lie; fails before training if stages are not found."""
        import torch

        from feda3i.models.stages import find_stages

        example = torch.zeros((1, self.channels, *self.shape))
        return Layout.of(network, find_stages(network, example))

    def device(self) -> torch.device:
        """Return the device to train on: a CUDA device if there is one and none is asked for."""
        import torch

        wanted = self.recipe.engine.device
        if wanted == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if wanted.startswith("cuda") and not torch.cuda.is_available():
            raise RecipeError(
                "engine.device: expected a CUDA device, found none; use engine.device=cpu"
            )
        return torch.device(wanted)
