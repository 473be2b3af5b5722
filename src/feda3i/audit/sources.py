"""What an audit looks at: the sites of a folder, of a recipe or of a run, or a server's survey."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from feda3i.audit.case_rows import CaseRow, measure_cases
from feda3i.audit.cross_fit import STEPS, Predicted, cross_predict, predict_all, warm_up_recipe
from feda3i.audit.estimators import check_estimators, edges_of_sites
from feda3i.audit.judge import CONTOUR, EDGES, FEWEST, Scale, SiteNumbers
from feda3i.audit.pictures import Show
from feda3i.core.cases import Cases, Federation, in_own_pixels
from feda3i.core.normalise import Normalise
from feda3i.core.predictor import Predictor
from feda3i.core.ragged import stacked
from feda3i.engine.console import Listener
from feda3i.engine.events import read_events
from feda3i.engine.job import normalise_of
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RunError, summary
from feda3i.quality import SIDE
from feda3i.quality.measure import Offset
from feda3i.quality.objects import Counts
from feda3i.quality.rating import Part, Rating
from feda3i.recipe import Recipe
from feda3i.simulation.annotation import true_offsets

TRUSTED = "trusted"
UNKNOWN = (
    "nobody knows which masks this model was trained on; on masks that it has seen it finds "
    "offsets too small"
)
SILENT = "it sent no offset"
OF_SURVEYS = (
    "the model had seen these masks in its warm-up, so offsets may come out a little small",
    "wobble, spread and single cases stay at the sites; each can run feda3i audit for itself",
)


@dataclass(frozen=True)
class Material:
    """Everything that ``judge_sites`` and ``second_looks`` need."""

    title: str
    how: str
    scale: Scale
    classes: tuple[str, ...]
    rows: tuple[CaseRow, ...] = ()  # one per case and class; empty for an audit from a survey
    trusted: tuple[CaseRow, ...] = ()  # the same for masks that are known to be good
    edges: Sequence[Mapping[str, Offset]] = ()
    """By class, the offset of each site from the edges in its images, in px at 256."""
    trusted_edges: Sequence[Mapping[str, Offset]] = ()  # the same of the trusted masks
    surveyed: Sequence[Mapping[str, SiteNumbers]] = ()
    """By class, what each site sent; empty if cases were measured."""
    objects: Mapping[str, Counts] = field(default_factory=dict)
    """What each site counted and sent; empty if cases were measured."""
    notes: tuple[str, ...] = ()
    true: Mapping[str, float] = field(default_factory=dict)
    """Offset of each site's annotator in the unit, known in simulations."""
    seed: int = 0
    show: Show | None = None
    """Return the pixels of a case by its id, for the pages that stay at the sites."""


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
    estimators: Sequence[str],
    listener: Listener,
    trusted: Cases | None = None,
    steps: int = STEPS,
) -> Material:
    """Measure the cases of all sites, with a model at hand or with models trained for it."""
    federation = _divided(federation)
    test, sites_of_test = _tests(federation, recipe)
    others = [test] if trusted is None else [test, trusted]
    guess = _guess(recipe, federation, others, model, estimators, listener, steps)
    options: dict[str, Any] = {"classes": len(federation.classes), "estimators": estimators}
    rule = normalise_of(recipe)
    train, unit = in_own_pixels(_as_seen(federation.train, rule))
    others = [in_own_pixels(_as_seen(cases, rule))[0] for cases in others]
    sites, seen = _sites(federation), [guess.is_seen] * len(train)
    rows = _measured(train, sites, guess.train, seen=seen, **options)
    rows += _measured(others[0], sites_of_test, guess.others[0], **options)
    good = others[1] if len(others) > 1 else None
    zero, zero_edges, edges = [], [], []
    has_edges, classes = "edges" in check_estimators(estimators), len(federation.classes)
    if good is not None:
        names = [TRUSTED] * len(good)
        zero = _measured(good, names, guess.others[1], **options)
        zero_edges = edges_of_sites(good, names, classes) if has_edges else []
    if has_edges:
        every = train if not len(others[0]) else _together(train, others[0])
        edges = edges_of_sites(every, [*sites, *sites_of_test], classes)
    kept, said = without_seen(rows)
    return Material(
        title=title,
        how=guess.how,
        scale=Scale(unit, pixel_of(train)),
        classes=federation.classes,
        rows=tuple(kept),
        trusted=tuple(zero),
        edges=edges,
        trusted_edges=zero_edges,
        notes=(*guess.notes, *said),
        true=_true(federation, train),
        seed=recipe.seed,
        show=_shown([(train, guess.train), (others[0], guess.others[0])]),
    )


def _shown(portions: Sequence[tuple[Cases, Predicted | None]]) -> Show:
    """Return a function that finds a case's image, mask and a model's mask by its id."""
    places = {
        case: (cases, found, k) for cases, found in portions for k, case in enumerate(cases.ids)
    }

    def show(case: str) -> Any:
        cases, found, k = places[case]
        suggested = None if found is None else np.asarray(found.masks[k])
        return np.asarray(cases.images[k]), np.asarray(cases.masks[k]), suggested

    return show


@dataclass(frozen=True)
class _Guess:
    """What models draw, and in words which models."""

    how: str
    train: Predicted | None
    others: Sequence[Predicted | None]
    is_seen: bool = False
    notes: tuple[str, ...] = ()


def _guess(
    recipe: Recipe,
    federation: Federation,
    others: Sequence[Cases],
    model: Model | None,
    estimators: Sequence[str],
    listener: Listener,
    steps: int,
) -> _Guess:
    """Return predictions by the given model or by models trained for it; none if none is needed."""
    if model is not None:
        return _Guess(
            how=model.words,
            train=predict_all(model.predictor, federation.train),
            others=[predict_all(model.predictor, cases) for cases in others],
            is_seen=model.seen_sha256 == federation.train.digest(),
            notes=(UNKNOWN,) if model.seen_sha256 is None else (),
        )
    if "contour" not in check_estimators(estimators):
        return _Guess("the images alone, without a model", None, [None] * len(others))
    warm = warm_up_recipe(recipe, federation, steps)
    found, maps = cross_predict(warm, federation, others, listener)
    return _Guess(
        how=(
            f"two models, each trained by plain federated averaging for {warm.rounds} rounds "
            f"(about {steps} steps a site) on one half of every site's cases; each judges the "
            f"other half"
        ),
        train=found,
        others=maps,
    )


def _measured(
    cases: Cases, sites: Sequence[str], found: Predicted | None, **options: Any
) -> list[CaseRow]:
    if found is None:
        return measure_cases(cases, sites, None, **options)
    return measure_cases(cases, sites, found.masks, sure=found.sure, **options)


def without_seen(rows: Sequence[CaseRow]) -> tuple[list[CaseRow], list[str]]:
    """Return the cases to judge by: those that the model has not seen, if every site has enough."""
    if not any(row.is_seen for row in rows):
        return list(rows), []
    unseen = [row for row in rows if not row.is_seen]
    sites = {row.site for row in rows}
    counts = {site: sum(row.site == site and row.is_drawn for row in unseen) for site in sites}
    if all(count >= FEWEST for count in counts.values()):
        return unseen, ["only cases that the model was not trained on count"]
    return list(rows), [
        "the model was trained on these very masks and may have learnt to repeat them: offsets "
        "come out too small, more so after longer training. Add --retrain to judge every "
        "case by a model that has not seen it"
    ]


def pixel_of(cases: Cases) -> float:
    """Return what a pixel at 256 of the median case is in the cases' unit."""
    shapes = cases.masks.shapes if cases.is_ragged else [cases.shape] * len(cases)
    size = np.ones((1, cases.dimensions)) if cases.spacing is None else cases.spacing
    return float(np.median((size * np.asarray(shapes)).max(axis=1))) / SIDE


def _together(one: Cases, other: Cases) -> Cases:
    """Return the cases of both: of a site's own training and test cases."""
    images = stacked([np.asarray(image) for part in (one, other) for image in part.images])
    masks = stacked([np.asarray(mask) for part in (one, other) for mask in part.masks])
    spacing = None
    if one.spacing is not None and other.spacing is not None:
        spacing = np.concatenate([one.spacing, other.spacing])
    names = (*one.ids, *(f"test {name}" for name in other.ids))
    return Cases(names, images, masks, spacing=spacing)


def _as_seen(cases: Cases, rule: Normalise) -> Cases:
    """Return cases with the values that a network sees: borders are looked for in those."""
    if rule.is_none or not len(cases):
        return cases
    return replace(cases, images=stacked([rule(np.asarray(image)) for image in cases.images]))


def _tests(federation: Federation, recipe: Recipe) -> tuple[Cases, list[str]]:
    """Return the test cases whose masks are a site's own; those of simulations are clean."""
    test = federation.test
    if recipe.noise.name != "none" or not test.sites:
        return test.take(np.zeros(0, np.intp)), []
    kept = np.array([i for i, site in enumerate(test.sites) if site in federation.sites], np.intp)
    return test.take(kept), [test.sites[i] for i in kept]


def _divided(federation: Federation) -> Federation:
    """Return the federation without training cases that belong to no site."""
    used = np.sort(np.concatenate([np.asarray(index) for index in federation.sites.values()]))
    if len(used) == len(federation.train):
        return federation
    sites = {site: np.searchsorted(used, index) for site, index in federation.sites.items()}
    clean = None if federation.clean_masks is None else federation.clean_masks[used]
    return replace(federation, train=federation.train.take(used), sites=sites, clean_masks=clean)


def _sites(federation: Federation) -> list[str]:
    place = {int(i): site for site, index in federation.sites.items() for i in index}
    return [place[i] for i in range(len(federation.train))]


def _true(federation: Federation, cases: Cases) -> dict[str, float]:
    size = 1.0 if cases.spacing is None else float(np.mean(cases.spacing))
    return {site: size * mu for site, mu in true_offsets(federation.notes).items()}


# -- without pixels: what the sites of a federation sent to their server --------------------------


def from_survey(folder: RunFolder) -> Material:
    """Return what a server's event log knows: two numbers per site and class, and no pixel."""
    try:
        return _material(folder)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise RunError(
            f"the survey in '{folder.events}' is damaged ({summary(error)}); restore it from a copy"
        ) from None


def _material(folder: RunFolder) -> Material:
    surveys = [event for event in read_events(folder.events, "round") if event.get("survey")]
    if not surveys:
        raise RunError(
            f"'{folder.path}' has no survey to audit: only FedA3I asks sites how they draw, after "
            f"its warm-up (method=feda3i, method.t1). To train a model on data at hand instead: "
            f"feda3i audit FOLDER"
        )
    event, recipe = surveys[-1], folder.recipe()
    rating = Rating.from_dict(event["survey"])
    if any(part.offset is None or not np.isfinite(part.offset).any() for part in rating.parts):
        raise RunError(
            f"the sites of '{folder.path}' sent no offsets: the paper's rule asks for losses only. "
            f"Run FedA3I with method.safe=true, or look at the survey: feda3i report {folder.path}"
        )
    cases, size = _cases(folder), _size(folder)
    names = folder.manifest().get("data", {}).get("classes") or []
    return Material(
        title=recipe.title or folder.path.name,
        how=(
            f"the survey of round {event['round']}: each site compared its own masks with the "
            f"warmed-up model and sent a few numbers and counts; no case and no pixel left it"
        ),
        scale=Scale(f"px of cases of {size} px", size / SIDE),
        classes=tuple(map(str, names))
        or tuple(f"class {part.class_number}" for part in rating.parts),
        surveyed=[_numbers(part, rating.sites, cases, SIDE / size) for part in rating.parts],
        objects={
            site: Counts.received(values)
            for site, values in event["survey"].get("objects", {}).items()
        },
        notes=OF_SURVEYS,
        seed=recipe.seed,
    )


def _numbers(
    part: Part, sites: tuple[str, ...], cases: Mapping[str, int], pixel: float
) -> dict[str, SiteNumbers]:
    """Return what each site sent, in px at 256."""
    unknown = np.full((len(sites), 2), np.nan)
    sent = {CONTOUR: part.offset, EDGES: part.edge}
    found = {}
    for row, site in enumerate(sites):
        number = cases.get(site, 0)
        answers = {}
        for name, pairs in sent.items():
            value, error = (unknown if pairs is None else pixel * pairs)[row].tolist()
            is_sent = math.isfinite(value) and math.isfinite(error) and error > 0
            answers[name] = (
                Offset(value, error, number) if is_sent else Offset.unknown(number, SILENT)
            )
        found[site] = SiteNumbers(number, answers)
    return found


def _cases(folder: RunFolder) -> dict[str, int]:
    """Return the cases of every site: those of the start, and of sites that came later."""
    found: dict[str, Any] = dict(folder.manifest().get("data", {}).get("sites", {}))
    for event in read_events(folder.events, "join"):
        found.update(event["sites"])
    return {site: int(count) for site, count in found.items()}


def _size(folder: RunFolder) -> int:
    """Return the side in pixels of the cases whose pixels offsets are told in."""
    recipe = folder.recipe()
    if recipe.train.patch:  # cases may have sizes of their own
        return SIDE
    size = recipe.data.options().get("size")
    if size is None and folder.is_done:
        from feda3i.engine.model_file import read_model

        size = read_model(folder.model, trust_code=False)[0].format.shape[0]
    if size is None:
        raise RunError(
            f"'{folder.path}' does not say how large its cases are: finish the run first "
            f"(feda3i resume), or set data.size in its recipe"
        )
    return int(size)
