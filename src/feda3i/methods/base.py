"""The method base: FedAvg behaviour in hooks. Override what your paper changes.

A method is a frozen pydantic model; its fields are its hyper-parameters, checked when a recipe is
read. It knows no files, sockets, devices or engines. What it must remember lives in
``server.state`` and ``site.memory``, plain data: so resume is exact. What leaves a site is declared
in ``wire`` and enforced on both sides.

One round, in order: ``plan`` (server) -> if it names sites to survey: ``survey`` (site), ``digest``
and ``plan`` again (server) -> ``fit`` (site) -> ``merge`` (server), which by default averages with
``weights`` -> ``digest``.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor, nn

from feda3i import losses
from feda3i.core.messages import Floats, Numbers, Params, Plan, Replies, Wire
from feda3i.core.server import Gathered, Server
from feda3i.core.site import Batch, Site
from feda3i.errors import RecipeError, check_option
from feda3i.values import made_with, mistakes

REMOVED = ("act", "predict", "revise", "targets")
"""Hooks of version 0.1, which nothing calls any more (CHANGELOG, 0.2)."""


class Method(BaseModel):
    """FedAvg with cross-entropy; every hook may be overridden."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    loss: Literal["ce", "dc"] = "ce"
    """``ce``: cross-entropy. ``dc``: half cross-entropy, half soft Dice."""

    wire: ClassVar[Wire] = Wire()
    follows_augmentation: ClassVar[bool] = True
    """Whether what is kept of a case pixel by pixel moves with it (``batch.follow``)."""
    begins_as_fedavg: ClassVar[bool] = False
    """Whether the rounds before the first of ``phases`` are FedAvg's, to the bit."""

    # -- server -----------------------------------------------------------------------------------

    def start(self, server: Server) -> None:
        """Prepare ``server.state`` before the first round; by default there is none."""

    def plan(self, server: Server, round: int) -> Plan:
        """Return what is asked in this round (counted from 1); by default every site trains.

        Asked again once a survey was digested; nobody is surveyed twice in a round.
        """
        return Plan()

    def digest(self, server: Server, replies: Replies) -> None:
        """Read the numbers of a survey (before the training) or of a fit (after the merge)."""

    def weights(self, server: Server, replies: Replies, gathered: Gathered) -> Floats:
        """Return ``(site,)`` or ``(site, stage)`` weights; used when the plan gathers replies."""
        return replies.share_of_cases()

    def merge(self, server: Server, replies: Replies, gathered: Gathered) -> Params:
        """Return the new global parameters from all replies; used when the plan gathers them."""
        weights = gathered.bounded(self.weights(server, replies, gathered))
        server.record(weights=dict(zip(replies.sites, weights.tolist(), strict=True)))
        return gathered.combine(weights)

    def models(self, server: Server) -> dict[str, Params]:
        """Return the models to score, by name: those in ``server.state["models"]``, else one."""
        kept: dict[str, Params] = server.state.get("models", {})
        return dict(sorted(kept.items())) or {"global": server.params}

    def phases(self, rounds: int, state: Mapping[str, Any]) -> Mapping[str, int | None]:
        """Return from which round on each part of the method acts; empty if all do from the first.

        Asked before the first round with an empty state, and after the last with the final one:
        ``None`` is a part that has not acted. A run that ends before a part acts says so.
        """
        return {}

    # -- site -------------------------------------------------------------------------------------

    def network(self, build: Callable[[int], nn.Module]) -> nn.Module:
        """Return the network that trains and predicts; ``build(i)`` has the i-th initialisation."""
        return build(0)

    def criterion(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a batch as a scalar."""
        if self.loss == "dc":
            return losses.cross_entropy_and_dice(logits, targets)
        return losses.cross_entropy(logits, targets)

    def step(self, site: Site, batch: Batch) -> Tensor:
        """Return the scalar that one optimiser step reduces."""
        return self.criterion(site.network(batch.images), batch.masks)

    def fit(self, site: Site) -> Numbers:
        """Train on the site's cases and return the numbers declared on the wire."""
        return site.train(lambda batch: self.step(site, batch))

    def survey(self, site: Site) -> Numbers:
        """Do what ``Plan.survey`` asks before the training; return the numbers on the wire."""
        raise TypeError(f"{type(self).__name__} plans a survey but does not define one")


def card_of_class(kind: type[Method]) -> str:
    """Return the method card: the docstring of the method's module."""
    module = inspect.getmodule(kind)
    return inspect.cleandoc((module.__doc__ if module else None) or kind.__doc__ or "")


def make_method(name: str, options: dict[str, Any]) -> Method:
    """Return a method by name with these hyper-parameters; explain what is wrong with them."""
    from feda3i.methods import REGISTRY

    kind = REGISTRY.get(name)
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise RecipeError(f"method '{name}': expected a subclass of Method, found {kind!r}")
    for hook in REMOVED:
        if hasattr(kind, hook):
            raise RecipeError(f"method '{name}' defines {hook}, a hook of 0.1 (see CHANGELOG.md)")
    for option in options:
        check_option(f"method '{name}'", option, kind.model_fields)
    try:
        method: Method = made_with(kind, options)
        return method
    except ValidationError as error:
        raise RecipeError(mistakes(error, name)) from None
