"""What every method promises, as checks that anyone can run on a method of their own.

``feda3i check method my_file.py:MyMethod`` runs them and names the promise that is broken; the test
suite runs them on every registered method.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from feda3i.core.cases import Cases, Federation
from feda3i.core.messages import Missing, Order, Params, Reply
from feda3i.core.ragged import stacked
from feda3i.engine.console import Listener
from feda3i.engine.events import read_events
from feda3i.engine.job import Job
from feda3i.engine.run import job_of, resume, run
from feda3i.engine.run_folder import RunFolder
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.errors import FedA3IError, summary
from feda3i.failures import plugin_place
from feda3i.methods.base import card_of_class
from feda3i.recipe import Recipe, validate
from feda3i.seeding import rng
from feda3i.simulation.views import as_trained


class Subject(NamedTuple):
    """The method under test, by name, with options that differ from its defaults."""

    name: str
    options: Mapping[str, Any]

    def recipe(self, rounds: int = 2, size: int = 32, **changes: Any) -> Recipe:
        """Return a recipe that trains a tiny network for a few rounds."""
        return validate(
            {
                "rounds": rounds,
                "data": {"name": "contract", "size": size},
                "model": {"name": "unet", "width": 4},
                "method": {"name": self.name, **self.options},
                "train": {"epochs": 1, "batch": 2},
                "evaluate": {"every": 100},
                "engine": {"workers": 1, "device": "cpu", "min_sites": 1},
                **changes,
            }
        )


def tiny_federation(
    sites: int = 3, cases: int = 4, size: int = 32, classes: int = 1, dimensions: int = 2
) -> Federation:
    """Return discs (balls) of one or more classes on noise, a few per site: enough to train on."""
    more = size, classes, dimensions
    train, test = (_tiny_cases(*one, *more) for one in (("train", sites * cases), ("test", 2)))
    index = {f"site-{k + 1}": np.arange(k * cases, (k + 1) * cases) for k in range(sites)}
    names = tuple(f"class-{k + 1}" for k in range(classes))
    return Federation(train, index, test, names, clean_masks=train.masks)


def _tiny_cases(split: str, count: int, size: int, classes: int, dimensions: int) -> Cases:
    shape = (size,) * dimensions
    grid = np.indices(shape)
    images = np.empty((count, *shape, 1), np.uint8)
    masks = np.zeros((count, *shape), np.uint8)
    for i in range(count):
        draw = rng(7, "contract", split, i)
        for k in range(classes):
            centre = draw.uniform(0.3, 0.7, dimensions) * size
            away = np.sqrt(((grid - centre.reshape(-1, *[1] * dimensions)) ** 2).sum(axis=0))
            masks[i][away < draw.uniform(0.12, 0.25) * size] = k + 1
        level = 60.0 + 120.0 * masks[i] / classes + draw.normal(0, 25, shape)
        images[i, ..., 0] = np.clip(level, 0, 255).astype(np.uint8)
    return Cases(tuple(f"{split}-{i}" for i in range(count)), images, masks)


def uneven_federation() -> Federation:
    """Return two sites of two cases each, of several sizes, one of them smaller than a patch."""
    whole = tiny_federation(sites=2, cases=2, size=48, classes=2)
    sides = ((40, 48), (14, 40), (33, 32), (24, 40))

    def cropped(cases: Cases) -> Cases:
        frames = [np.s_[k, 8 : 8 + sides[k][0], 8 : sides[k][1]] for k in range(len(cases))]
        images, masks = (stacked([s[f] for f in frames]) for s in (cases.images, cases.masks))
        return replace(cases, images=images, masks=masks)

    train, test = cropped(whole.train), cropped(whole.test)
    return replace(whole, train=train, test=test, clean_masks=train.masks)


class CheckedRun(NamedTuple):
    """What came of a run: final parameters, model hash, events."""

    params: Params
    sha256: str
    events: list[dict[str, Any]]


class StopAfter(Listener):
    """A listener that breaks the run off after some rounds, and keeps what it was told."""

    def __init__(self, rounds: int = 1) -> None:
        self.rounds = rounds
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)

    def round(self, event: dict[str, Any]) -> None:
        """End the run, as a crash would."""
        if event["round"] == self.rounds:
            raise KeyboardInterrupt


Change = Callable[[Order, Reply | Missing], Reply | Missing]


def losing(lost: Mapping[int, str]) -> Change:
    """Return a change of answers that loses a site in a round: ``{round: site}``."""

    def change(order: Order, answer: Reply | Missing) -> Reply | Missing:
        is_lost = lost.get(order.round) == order.site
        return Missing(order.site, "lost on purpose") if is_lost else answer

    return change


def outcome_of(
    recipe: Recipe,
    federation: Federation,
    *,
    stop_after: int | None = None,
    change: Change | None = None,
) -> CheckedRun:
    """Run a recipe in a temporary folder, if asked with an interruption or changed answers."""

    class Changed(LocalTransport):
        def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
            answers = super().call(orders)
            return map(change, orders, answers) if change is not None else answers

    with (
        tempfile.TemporaryDirectory(prefix="feda3i-contract-") as temporary,
        patch("feda3i.engine.run.LocalTransport", Changed),
    ):
        path = Path(temporary) / "run"
        try:
            listener = StopAfter(stop_after or 0)
            sha = run(recipe, path, federation=federation, listener=listener).sha256
            assert stop_after is None, "the run ended before it could be interrupted"
        except KeyboardInterrupt:
            sha = resume(path, federation=federation, trust_code=True).sha256
        params: Params = (RunFolder.open(path).load() or {})["params"]
        assert np.isfinite(params.values).all(), "the parameters are not finite"
        return CheckedRun(params, sha, list(read_events(path / "events.jsonl")))


def trains_and_repeats(subject: Subject) -> None:
    """Two rounds change the model, stay finite, and repeat bit for bit with the same seed."""
    first, again, other = (
        outcome_of(subject.recipe(seed=seed), tiny_federation()) for seed in (0, 0, 1)
    )
    differs = not np.array_equal(first.params.values, other.params.values)
    assert differs, "another seed gives the same model"
    assert first.sha256 == again.sha256, "the same seed gives another model"


def takes_several_classes(subject: Subject) -> None:
    """Three foreground classes train."""
    _check_weights(outcome_of(subject.recipe(), tiny_federation(classes=3)))


def takes_volumes(subject: Subject) -> None:
    """Three dimensions in space train."""
    federation = tiny_federation(sites=2, cases=2, size=16, dimensions=3)
    _check_weights(outcome_of(subject.recipe(size=16), federation))


def takes_patches(subject: Subject) -> None:
    """Train on patches of cases of several sizes, also after a crash."""
    train = {"epochs": 2, "batch": 2, "patch": [16, 20]}
    _check_resumed(subject.recipe(rounds=3, train=train), uneven_federation())


def resumes_exactly(subject: Subject) -> None:
    """Four rounds equal two rounds, a crash, and two more rounds."""
    _check_resumed(subject.recipe(rounds=4), tiny_federation())


def _check_resumed(recipe: Recipe, federation: Federation) -> None:
    whole, broken = (outcome_of(recipe, federation, stop_after=after) for after in (None, 2))
    assert whole.sha256 == broken.sha256, "a resumed run ends with another model"
    told = [[(e["event"], e.get("round")) for e in one.events] for one in (whole, broken)]
    assert told[0] == told[1], "rounds are told twice"


def survives_a_missing_site(subject: Subject) -> None:
    """Lose a site, find it again, lose it again: the run goes on, and weights sum to one."""
    federation, recipe = tiny_federation(), subject.recipe(rounds=4)
    sites = as_trained(federation, recipe.method.name).names()
    if len(sites) > 1:
        lost = losing({1: sites[1], 3: sites[1]})
        _check_weights(outcome_of(recipe, federation, change=lost))


def _check_weights(outcome: CheckedRun) -> None:
    """Check that the weights of every round sum to one."""
    for weighted in filter(None, (event.get("weights") for event in outcome.events)):
        weights = np.array(list(weighted.values()), dtype=np.float64)
        assert np.isfinite(weights).all(), "a weight is not finite"
        assert (weights >= 0).all(), "a weight is negative"
        assert np.allclose(weights.sum(axis=0), 1), "weights do not sum to one"


def survives_odd_sites(subject: Subject) -> None:
    """Train with a site of empty masks, one of full masks, and one with a single case."""
    federation = tiny_federation(sites=5)
    masks = federation.train.masks.copy()
    masks[federation.sites["site-1"]] = 0
    masks[federation.sites["site-2"]] = 1
    sites = {**federation.sites, "site-3": federation.sites["site-3"][:1]}
    odd = replace(federation.with_masks(masks), sites=sites)
    _check_weights(outcome_of(subject.recipe(rounds=3), odd))


def learns(subject: Subject) -> None:
    """Change the weights at every site that trains, and fit the given masks better than before."""
    federation, recipe = tiny_federation(sites=2), subject.recipe(rounds=4)
    job, idle = job_of(recipe, federation), set()
    trained = job.layout.trained()

    def watch(order: Order, answer: Reply | Missing) -> Reply | Missing:
        # A method may start from a network of the site's own instead of the global one.
        for start in (order.params, *order.networks.values()):
            sent = answer.params if isinstance(answer, Reply) else None
            if sent is not None and np.array_equal(sent.values[trained], start.values[trained]):
                idle.add((order.site, order.round))
        return answer

    last = outcome_of(recipe, federation, change=watch).params
    assert not idle, f"weights came back unchanged from {sorted(idle)}"
    seen = as_trained(federation, recipe.method.name)
    with one_thread():
        before, after = (_misfit(job, seen, params) for params in (job.initial, last))
    assert after < before, f"the masks are fitted no better: loss {before:.4f} -> {after:.4f}"


def _misfit(job: Job, federation: Federation, params: Params) -> float:
    """Return the mean cross-entropy of a model on the masks that the sites train on."""
    p = job.predictor().probabilities(federation.train.images, params).astype(np.float64)
    masks = np.stack([federation.train.masks == k + 1 for k in range(job.format.classes)], axis=1)
    return float(-np.log(np.clip(np.where(masks, p, 1 - p), 1e-12, 1)).mean())


def leaves_masks_alone(subject: Subject) -> None:
    """Leave the given masks and the test cases as they were, byte for byte."""
    federation = tiny_federation()
    before = federation.train.digest(), federation.test.digest()
    outcome_of(subject.recipe(rounds=3), federation)
    after = federation.train.digest(), federation.test.digest()
    assert after == before, "the method changed given masks or test cases"


def declares_its_wire(subject: Subject) -> None:
    """Say on the card what leaves a site; the names on the wire are plain words."""
    method = job_of(subject.recipe(), tiny_federation()).method
    card = card_of_class(type(method))
    assert "leaves" in card.lower(), "the module docstring does not say what leaves a site"
    wire = method.wire
    names = (*wire.fit, *wire.survey, *wire.settings, *wire.networks)
    assert all(name.isidentifier() for name in names), f"not all plain names: {names}"
    numbers = (*wire.fit, *wire.survey)
    assert set(wire.per_class) <= set(numbers), "per_class names a number that is not sent"


PROMISES: tuple[Callable[[Subject], None], ...] = (
    trains_and_repeats,
    learns,
    takes_several_classes,
    takes_volumes,
    takes_patches,
    resumes_exactly,
    survives_a_missing_site,
    survives_odd_sites,
    leaves_masks_alone,
    declares_its_wire,
)


def check_method(name: str, options: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Run all promises on a method; return what is wrong by promise, empty text if it holds."""
    subject = Subject(name, options or {})
    outcome = {promise.__name__: "" for promise in PROMISES}
    for promise in PROMISES:
        try:
            promise(subject)
        except (AssertionError, FedA3IError) as error:
            outcome[promise.__name__] = str(error) or "the check failed"
        except Exception as error:  # whatever a method's own code may raise
            place = plugin_place(error)
            outcome[promise.__name__] = summary(error) + (f" in {place}" if place else "")
    return outcome
