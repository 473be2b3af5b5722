"""What an audit looks at: every case whose mask a site drew, and models that have not seen it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.audit.assemble import Material, counts_of, numbers_of, pixel_of, trusted_offsets
from feda3i.audit.case_rows import CaseRow, measure_cases
from feda3i.audit.cross_fit import STEPS, Predicted, cross_predict, predict_all, warm_up_recipe
from feda3i.audit.judge import FEWEST, Scale
from feda3i.audit.pictures import Show
from feda3i.core.cases import Cases, Federation, in_own_pixels
from feda3i.core.normalise import Normalise
from feda3i.core.predictor import Predictor
from feda3i.core.ragged import stacked
from feda3i.engine.console import Listener
from feda3i.engine.job import normalise_of
from feda3i.recipe import Recipe
from feda3i.simulation.annotation import true_offsets

UNKNOWN = (
    "nobody knows which masks this model was trained on; on masks that it has seen it finds "
    "offsets too small"
)
UNSEEN = "only cases that the model was not trained on count"
SEEN = (
    "the model was trained on these very masks and may have learnt to repeat them: offsets come "
    "out too small, more so after longer training. Audit the run's recipe.toml instead of the run "
    "to judge every case by a model that has not seen it"
)


@dataclass(frozen=True)
class Model:
    """A trained model, and what is known of the masks it has seen."""

    predictor: Predictor
    words: str
    seen_sha256: str | None = None


def from_federation(
    recipe: Recipe,
    federation: Federation,
    model: Model | None,
    *,
    title: str,
    listener: Listener,
    edges_only: bool = False,
    trusted: Cases | None = None,
) -> Material:
    """Measure the cases of all sites, by edges in the images and by a model.

    Without a model at hand, models are trained for it, unless the edges are to judge alone.
    """
    is_seen = model is not None and model.seen_sha256 == federation.train.digest()
    federation, is_test = with_tests(federation, recipe)
    found: Predicted | None = None
    good: Predicted | None = None
    if model is not None:
        how, found = model.words, predict_all(model.predictor, federation.train)
        good = None if trusted is None else predict_all(model.predictor, trusted)
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
    scale, sites = Scale(unit, pixel_of(cases)), _sites(federation)
    rows = measure_cases(cases, sites, *_of(found), classes)
    notes = [UNKNOWN] if model is not None and model.seen_sha256 is None else []
    if is_seen:
        rows, note = _without_seen(rows, set(np.array(cases.ids)[is_test].tolist()))
        notes.append(note)
    zero = None
    if trusted is not None:
        right = in_own_pixels(_as_seen(trusted, rule))[0]
        zero = trusted_offsets(right, *_of(good), classes, scale)
    pixel = 1.0 if cases.spacing is None else float(np.mean(cases.spacing))
    return Material(
        title=title,
        how=how,
        scale=scale,
        classes=federation.classes,
        sites=numbers_of(cases, sites, rows, classes, scale),
        trusted=zero,
        objects=counts_of(rows),
        rows=rows,
        notes=tuple(notes),
        true={site: pixel * mu for site, mu in true_offsets(federation.notes).items()},
        show=_shown(cases, found),
    )


def with_tests(federation: Federation, recipe: Recipe) -> tuple[Federation, NDArray[np.bool_]]:
    """Return the federation with every case whose mask a site drew, and which are test cases.

    Test cases of simulations are clean, and training cases of no site are left out.
    """
    train, test = federation.train, federation.test
    used = np.sort(np.concatenate([np.asarray(index) for index in federation.sites.values()]))
    owner = np.array(test.sites if recipe.noise.name == "none" else (), dtype=str)
    own = np.flatnonzero(np.isin(owner, federation.names()))
    is_test = np.arange(len(used) + len(own)) >= len(used)
    if len(used) == len(train) and not len(own):
        return federation, is_test
    sites = {
        site: np.concatenate(
            [np.searchsorted(used, index), len(used) + np.flatnonzero(owner[own] == site)]
        )
        for site, index in federation.sites.items()
    }
    cases = _together(train.take(used), test.take(own))
    rest = test.take(np.setdiff1d(np.arange(len(test)), own))
    return Federation(cases, sites, rest, federation.classes, notes=federation.notes), is_test


def _together(one: Cases, other: Cases) -> Cases:
    """Return the cases of both."""

    def joined(name: str) -> Any:
        parts = [getattr(one, name), getattr(other, name)]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    return Cases(
        (*one.ids, *other.ids),
        stacked([np.asarray(image) for part in (one, other) for image in part.images]),
        stacked([np.asarray(mask) for part in (one, other) for mask in part.masks]),
        spacing=joined("spacing"),
        zoom=joined("zoom"),
    )


def _without_seen(rows: Sequence[CaseRow], new: set[str]) -> tuple[list[CaseRow], str]:
    """Return the cases to judge by: those that the model has not seen, if every site has enough."""
    unseen = [row for row in rows if row.case in new]
    counts = {row.site: 0 for row in rows}
    for row in unseen:
        counts[row.site] += row.is_drawn
    return (unseen, UNSEEN) if min(counts.values()) >= FEWEST else (list(rows), SEEN)


def _of(found: Predicted | None) -> tuple[Any, Any]:
    return (None, None) if found is None else (found.masks, found.sure)


def _as_seen(cases: Cases, rule: Normalise) -> Cases:
    """Return cases with the values that a network sees: borders are looked for in those."""
    if rule.is_none:
        return cases
    return replace(cases, images=stacked([rule(np.asarray(image)) for image in cases.images]))


def _sites(federation: Federation) -> list[str]:
    place = {int(i): site for site, index in federation.sites.items() for i in index}
    return [place[i] for i in range(len(federation.train))]


def _shown(cases: Cases, found: Predicted | None) -> Show:
    """Return a function that finds a case's image, mask and a model's mask by its id."""
    places = {case: place for place, case in enumerate(cases.ids)}

    def show(case: str) -> Any:
        k = places[case]
        suggested = None if found is None else np.asarray(found.masks[k])
        return np.asarray(cases.images[k]), np.asarray(cases.masks[k]), suggested

    return show
