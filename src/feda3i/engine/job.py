"""A recipe made concrete: the method object, the network it trains and how its state is laid out.

Server and sites each build the same job from the same recipe; nothing of it travels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from feda3i.core.cases import Cases
from feda3i.core.format import Format
from feda3i.core.layout import Layout
from feda3i.core.messages import Params
from feda3i.core.normalise import Normalise, Rule
from feda3i.core.server import Server
from feda3i.errors import RecipeError
from feda3i.methods.base import Method, make_method
from feda3i.recipe import Recipe
from feda3i.seeding import derive

if TYPE_CHECKING:
    import torch
    from torch import nn

    from feda3i.core.predictor import Predictor


@dataclass(frozen=True)
class Job:
    """What a run trains: a recipe, and the format of the cases that it meets."""

    recipe: Recipe
    format: Format

    @cached_property
    def method(self) -> Method:
        """Return the method with the recipe's hyper-parameters."""
        method = make_method(self.recipe.method.name, self.recipe.method.options())
        if self.recipe.train.augment != "none" and not method.follows_augmentation:
            raise RecipeError(
                f"train.augment={self.recipe.train.augment}: method '{self.recipe.method.name}' "
                f"remembers predictions pixel by pixel; use train.augment=none, or another method"
            )
        return method

    def network(self) -> nn.Module:
        """Build the method's network with the initialisation of the run's seed."""
        return self.method.network(self.plain_network)

    def plain_network(self, number: int) -> nn.Module:
        """Build a plain network of this seed; every method starts from that of number 0."""
        import torch

        from feda3i import models

        model = self.recipe.model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self.recipe.seed, "init", number) & (2**63 - 1))
            return models.build(
                model.name,
                channels=self.format.channels,
                classes=self.format.classes,
                shape=self.format.shape,
                options=model.options(),
            )

    def check_memory(self, cases: int) -> None:
        """Raise ``RecipeError`` if a training step on this many cases does not fit into memory."""
        from feda3i import models

        model, batch = self.recipe.model, min(cases, self.recipe.train.batch)
        models.check_memory(model.name, self.format.shape, model.options(), batch)

    @cached_property
    def _first(self) -> tuple[Layout, Params]:
        import torch

        from feda3i.models.stages import find_stages

        network = self.network()
        example = torch.zeros((1, self.format.channels, *self.format.shape))
        layout = Layout.of(network, find_stages(network, example))
        return layout, layout.read(network)

    @property
    def layout(self) -> Layout:
        """Return where the network's tensors lie; fails before training if stages are not found."""
        return self._first[0]

    @property
    def initial(self) -> Params:
        """Return the parameters that the first round starts from."""
        return self._first[1]

    def predictor(self) -> Predictor:
        """Return a new network with the initialisation of the run's seed, ready to predict."""
        from feda3i.core.predictor import Predictor

        network, device = self.network(), self.device()
        if self.recipe.engine.compile:
            network.compile()
        return Predictor(network, self.layout, self.format, device)

    def server(self, sites: Mapping[str, int]) -> Server:
        """Return the server of this job at its beginning."""
        return Server(
            layout=self.layout,
            params=self.initial,
            sites=sites,
            format=self.format,
            rounds=self.recipe.rounds,
            seed=self.recipe.seed,
            build=self.predictor,
            state={},
        )

    def device(self) -> torch.device:
        """Return the device to train on: a CUDA device if there is one and none is asked for."""
        import torch

        wanted = self.recipe.engine.device
        if wanted == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if wanted.startswith("cuda") and not torch.cuda.is_available():
            raise RecipeError("engine.device: expected a CUDA device, found none; try cpu")
        return torch.device(wanted)


def format_of(recipe: Recipe, channels: int, classes: int, shape: Sequence[int]) -> Format:
    """Return the format of a recipe's cases; ``shape`` is that of a case, or of a patch."""
    options, train = recipe.data.options(), recipe.train
    patches, spacing = train.patch is not None, options.get("spacing")
    if patches and len(shape) != len(train.patch or ()):
        raise RecipeError(f"train.patch: expected {len(shape)} sides, found {train.patch}")
    return Format(
        channels,
        classes,
        tuple(train.patch or shape),
        normalise_of(recipe),
        patches=patches,
        overlap=0.5 if train.overlap is None else train.overlap,
        size=options.get("size") if patches else None,
        spacing=tuple(float(s) for s in spacing) if patches and spacing else None,
        axis=int(options.get("axis", 2)),
        volumes=options.get("volumes"),
        keeps_values=keeps_values_of(recipe),
    )


def job_for(recipe: Recipe, cases: Cases, classes: int) -> Job:
    """Return the job of a recipe that fits these cases."""
    if cases.images.dtype != np.uint8 and not (recipe.data.normalise or keeps_values_of(recipe)):
        raise RecipeError(
            f"the images hold {cases.images.dtype}, not bytes: give e.g. data.normalise=zscore"
        )
    shape = cases.usual_shape if recipe.train.patch else cases.shape
    return Job(recipe, format_of(recipe, cases.channels, classes, shape))


def normalise_of(recipe: Recipe) -> Normalise:
    """Return how a recipe's values become what the network sees."""
    data = recipe.data
    usual: Rule = "zscore" if keeps_values_of(recipe) else "none"
    return Normalise(data.normalise or usual, data.normalise_over or "all", data.normalise_by)


def keeps_values_of(recipe: Recipe) -> bool:
    """Return whether a recipe's cases keep the values of their files: volumes do unless told not.

    >>> from feda3i.recipe import load
    >>> keeps_values_of(load("hippocampus")), keeps_values_of(load("own"))
    (True, False)
    """
    options = recipe.data.options()
    values = options.get("values")
    return values == "kept" or (values is None and options.get("volumes") is not None)
