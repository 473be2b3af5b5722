"""Views of a federation: the reference rows ``clean`` and ``central`` are FedAvg on other data.

``method=clean`` and ``method=central`` name a view where another name would be that of a method.
The docstring of a view is its card.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from feda3i.core.cases import Federation, Index
from feda3i.errors import RecipeError
from feda3i.methods import REGISTRY
from feda3i.methods.base import card_of_class

View = Callable[[Federation], Federation]


def clean(federation: Federation) -> Federation:
    """Clean: FedAvg on the clean masks, the ceiling for noise-robust methods.

    Paper
        None: the upper reference row. It needs the underlying truth, which simulations know.
    What changes against FedAvg
        Sites train on the clean masks instead of the given ones; nothing else changes.
    What stays at the site
        Images, masks, optimiser moments (re-created every round).
    What leaves the site
        The network's parameters, the number of cases, the mean training loss.
    Cost
        As FedAvg.
    Departures
        None. Where a data set knows no clean masks beside the given ones (no noise was added), the
        given ones count as clean and this row equals FedAvg.
    """
    if federation.clean_masks is None:
        raise RecipeError(
            "method 'clean' trains on masks known to be clean, as simulations and cases drawn by "
            "several people have; expected a recipe with noise, found none"
        )
    return replace(federation, train=replace(federation.train, masks=federation.clean_masks))


def central(federation: Federation) -> Federation:
    """Central: all cases in one place, trained as one site; no federation at all.

    Paper
        None: a reference row. It shows what federation itself costs, with the masks as given.
    What changes against FedAvg
        One site holds the cases of all. A round is still the recipe's epochs with a fresh
        optimiser, so that a round sees every case as often as in a federation.
    What stays at the site
        Optimiser moments (re-created every round).
    What leaves the site
        The network's parameters, the number of cases, the mean training loss; but all images and
        masks have left their sites before. Simulations only.
    Cost
        As FedAvg: the same number of training steps, but none of them at the same time as another.
    Departures
        None. Batches mix the cases of all sites.
    """
    return replace(
        federation, sites=_pooled(federation.sites), validation=_pooled(federation.validation)
    )


def _pooled(sites: Mapping[str, Index]) -> dict[str, Index]:
    every = [sites[name] for name in sorted(sites)]
    return {"all": np.sort(np.concatenate(every))} if every else {}


VIEWS: dict[str, View] = {"clean": clean, "central": central}


def view_of(method: str) -> View | None:
    """Return the view that a recipe's ``method`` names, if it names one."""
    return VIEWS.get(REGISTRY.canonical(method))


def as_trained(federation: Federation, method: str) -> Federation:
    """Return what this method trains on: a view of the federation, or the federation itself."""
    view = view_of(method)
    return federation if view is None else view(federation)


def card_of(method: str) -> str:
    """Return the card of a method or of a view."""
    view = view_of(method)
    return inspect.getdoc(view) or "" if view else str(card_of_class(REGISTRY.get(method)))
