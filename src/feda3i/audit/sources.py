"""What an audit looks at: every case whose mask a site drew, and models that have not seen it."""

from dataclasses import replace
from typing import Any

import numpy as np

from feda3i.audit.assemble import TRUSTED, audit_cases
from feda3i.audit.case_rows import CaseRow, measure_cases
from feda3i.audit.cross_fit import STEPS, cross_predict, predict_all, warm_up_recipe
from feda3i.audit.judge import Audit
from feda3i.audit.pictures import Show
from feda3i.core.cases import Cases, Federation, in_own_pixels
from feda3i.core.normalise import Normalise
from feda3i.core.predictor import Predictor
from feda3i.core.ragged import stacked
from feda3i.engine.console import Listener
from feda3i.engine.job import normalise_of
from feda3i.recipe import Recipe
from feda3i.simulation.annotation import true_offsets

GIVEN = (
    "on masks that a given model was trained on it finds offsets too small, because it has learnt "
    "to repeat them; without --model every case is judged by a model that has not seen it"
)


def from_federation(
    recipe: Recipe,
    federation: Federation,
    listener: Listener,
    model: Predictor | None = None,
    *,
    edges_only: bool = False,
    trusted: Cases | None = None,
) -> tuple[Audit, list[CaseRow], Show]:
    """Audit the cases of all sites; return also their rows, and what shows the pixels of one.

    Without a model at hand, models are trained for it, unless the edges are to judge alone.
    """
    federation = _with_tests(federation, recipe)
    found = good = None
    if model is not None:
        how, found = "edges in the images and a given model", predict_all(model, federation.train)
        good = None if trusted is None else predict_all(model, trusted)
    elif edges_only:
        how = "the images alone, without a model"
    else:
        warm = warm_up_recipe(recipe, federation)
        found, good = cross_predict(warm, federation, trusted, listener)
        how = (
            f"two models, each trained by plain federated averaging for {warm.rounds} rounds "
            f"(about {STEPS} steps a site) on one half of every site's cases; each judges the "
            f"other half"
        )
    rule, classes = normalise_of(recipe), len(federation.classes)
    cases, unit = in_own_pixels(_as_seen(federation.train, rule))
    place = {int(i): site for site, index in federation.sites.items() for i in index}
    sites, rows, right = [place[i] for i in range(len(cases))], [], None
    if found is not None:
        rows = measure_cases(cases, sites, found.masks, found.sure, classes)
    if trusted is not None:
        seen, own = in_own_pixels(_as_seen(trusted, rule))[0], []
        if good is not None:
            own = measure_cases(seen, [TRUSTED] * len(seen), good.masks, good.sure, classes)
        right = seen, own
    pixel = 1.0 if cases.spacing is None else float(np.mean(cases.spacing))
    audit = audit_cases(
        *(unit, cases, rows, sites, federation.classes, right),
        title=recipe.title,
        how=how,
        notes=() if model is None else (GIVEN,),
        true={site: pixel * mu for site, mu in true_offsets(federation.notes).items()},
    )
    places = {case: k for k, case in enumerate(cases.ids)}

    def show(case: str) -> tuple[Any, Any, Any]:
        k = places[case]
        suggested = None if found is None else np.asarray(found.masks[k])
        return np.asarray(cases.images[k]), np.asarray(cases.masks[k]), suggested

    return audit, rows, show


def _with_tests(federation: Federation, recipe: Recipe) -> Federation:
    """Return the federation with every case whose mask a site drew, test cases too.

    Test cases of simulations are clean, and training cases of no site are left out.
    """
    train, test = federation.train, federation.test
    used = np.sort(np.concatenate(list(federation.sites.values())))
    owner = np.array(test.sites if recipe.noise.name == "none" else (), dtype=str)
    own = np.flatnonzero(np.isin(owner, federation.names()))
    if len(used) == len(train) and not len(own):
        return federation
    sites = {}
    for site, index in federation.sites.items():
        tested = len(used) + np.flatnonzero(owner[own] == site)
        sites[site] = np.append(np.searchsorted(used, index), tested)
    one, two = train.take(used), test.take(own)

    def joined(first: Any, second: Any) -> Any:
        return None if first is None or second is None else np.concatenate([first, second])

    cases = Cases(
        (*one.ids, *two.ids),
        stacked([*map(np.asarray, one.images), *map(np.asarray, two.images)]),
        stacked([*map(np.asarray, one.masks), *map(np.asarray, two.masks)]),
        spacing=joined(one.spacing, two.spacing),
        zoom=joined(one.zoom, two.zoom),
    )
    rest = test.take(np.setdiff1d(np.arange(len(test)), own))
    return Federation(cases, sites, rest, federation.classes, notes=federation.notes)


def _as_seen(cases: Cases, rule: Normalise) -> Cases:
    """Return cases with the values that a network sees: borders are looked for in those."""
    if rule.is_none:
        return cases
    return replace(cases, images=stacked([rule(np.asarray(image)) for image in cases.images]))
