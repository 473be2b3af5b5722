"""Volumes of several sizes, trained on patches: the same bits however a run is played."""

import json

import numpy as np
import pytest

from consortium import Trial, site_names, tiny
from feda3i.core.cases import Cases, Federation
from feda3i.core.ragged import Ragged
from feda3i.core.trees import unpack, unseal
from feda3i.engine.model_file import open_predictor
from feda3i.engine.run import job_of, resume, run
from feda3i.errors import DataError, RecipeError
from feda3i.simulation.federation import federation_of
from listeners import StopAfter
from short import SHORT

REMEMBERING = {
    "adele": "masks",
    "elr": "t1",
    "fedcorr": "masks",
    "feddm": "peers",
    "fednoro": "noisy",
    "redraw": "moved",
}
"""Methods that keep something for every pixel of a case, and what shows that they came to it."""


VOLUMES = {"name": "synthetic-volumes", "cases": 2, "size": 24, "thick": 2.0}
REDRAWN = {"data": {"cases": 8}, "redraw": {"on": True, "b0": [0.0]}}
"""Moved contours, before a method that remembers masks itself."""


def patched(rounds=2, method="feda3i", options=None, **changes):
    """Return a tiny recipe of volumes with noise in space and, where methods follow, augmented."""
    values = {
        "data": {**VOLUMES, "normalise": "zscore"},
        "noise": {"name": "levelset", "mu_max": 9, "mu_min": -9, "sigma_max": 4, "p_d": 0.5},
        "model": {"width": 2, "norm": "group"},
        "train": {"patch": [16, 16, 16], "augment": "none" if method == "elr" else "mri"},
    }
    for key, change in changes.items():
        values[key] = {**values.get(key, {}), **change}
    given = SHORT.get(method, {}) if options is None else options
    return tiny(rounds, 2, method, given, **values)


def variant(rounds, name, **changes):
    """Return the recipe of a method that remembers, or of one after masks were redrawn."""
    if name == "redraw":
        return patched(rounds, "adele", **REDRAWN, **changes)
    return patched(rounds, name, **changes)


def remembered(path):
    """Return the names of what sites remember."""
    files = (path / "memory").glob("*.memory")
    return {name for file in files for name in unpack(unseal(file.read_bytes()))["memory"]}


def facts(path):
    """Return the names of what the rounds of a run recorded, where it is not empty."""
    events = [json.loads(line) for line in (path / "events.jsonl").read_text("utf-8").splitlines()]
    return {name for event in events for name, value in event.items() if value}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return run(patched(), tmp_path_factory.mktemp("patched") / "run")


def test_the_survey_and_the_scores_are_of_whole_volumes(played):
    events = [
        json.loads(line) for line in (played.path / "events.jsonl").read_text("utf-8").splitlines()
    ]
    surveys = [event["survey"] for event in events if "survey" in event]
    assert len(surveys) == 1
    rows = [e for e in events if e["event"] == "score" and e["split"] == "test"][-1]["rows"]
    assert {row["class"] for row in rows} == {1, 2}
    assert np.isfinite(played.scores["dice"])


def test_the_network_engine_makes_the_same_model(played, tmp_path):
    pytest.importorskip("flwr")
    network = Trial(tmp_path, patched(), site_names(2)).play()
    assert network.sha256 == played.sha256


def test_a_model_carries_its_normalisation_and_does_not_mind_the_scale(played, tmp_path):
    changed = patched(data={"normalise": "percentiles", "normalise_by": [1, 99]})
    other = run(changed, tmp_path / "other")
    assert other.sha256 != played.sha256
    rule = open_predictor(other.path).format.normalise
    assert (rule.name, rule.by) == ("percentiles", (1.0, 99.0))
    predictor = open_predictor(played.path)
    assert predictor.format.normalise.name == "zscore"
    image = federation_of(patched()).test.images[0]
    mask = predictor.masks(image[None])[0]
    assert mask.shape == image.shape[:-1]
    np.testing.assert_array_equal(predictor.masks((4 * image)[None])[0], mask)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "redraw" else [pytest.mark.slow])
        for name in REMEMBERING
    ],
)
def test_what_is_remembered_gives_the_same_model_however_a_run_is_played(name, tmp_path):
    pytest.importorskip("flwr")
    rounds = 4 if name in ("adele", "redraw") else 3
    recipe = variant(rounds, name)
    one = run(recipe, tmp_path / "one")
    found = remembered(one.path) | facts(one.path)
    assert REMEMBERING[name] in found
    assert name != "redraw" or "masks" in found  # those of the method that follows
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "two", listener=StopAfter(2))
    assert resume(tmp_path / "two").sha256 == one.sha256
    network = Trial(tmp_path, recipe, site_names(2)).play()
    assert network.sha256 == one.sha256
    workers = run(variant(rounds, name, engine={"workers": 2}), tmp_path / "workers")
    assert workers.sha256 == one.sha256


def federation(dtype=np.float32, foreground=True):
    """Return two sites of two small volumes each, of several sizes."""
    shapes = [(20, 18, 17), (9, 30, 20), (16, 16, 16), (17, 20, 33)]
    draw = np.random.default_rng(0)
    images = [draw.normal(100, 20, (*shape, 1)).astype(dtype) for shape in shapes]
    masks = [np.zeros(shape, np.uint8) for shape in shapes]
    for k, mask in enumerate(masks):
        mask[4:8, 5:12, 5:12] = 1 if foreground or k > 1 else 0
    names = [f"c{k}" for k in range(4)]
    cases = Cases(tuple(names), Ragged.of(images), Ragged.of(masks))
    test = Cases(("t",), Ragged.of(images[:1]), Ragged.of(masks[:1]))
    return Federation(cases, {"a": np.array([0, 1]), "b": np.array([2, 3])}, test)


def test_a_site_without_any_foreground_trains_and_is_not_rated(tmp_path):
    recipe = patched(2, train={"foreground": 1.0})
    result = run(recipe, tmp_path / "run", federation=federation(foreground=False))
    events = [
        json.loads(line) for line in (result.path / "events.jsonl").read_text("utf-8").splitlines()
    ]
    (survey,) = [event["survey"] for event in events if "survey" in event]
    assert survey["parts"][0]["grouping"]["labels"][0] == "unrated"
    assert np.isfinite(result.scores["dice"])


def test_a_patch_larger_than_every_volume_pads(tmp_path):
    recipe = patched(1, "fedavg", train={"patch": [32, 48, 48]})
    assert np.isfinite(run(recipe, tmp_path / "run", federation=federation()).scores["dice"])


def test_what_does_not_fit_is_said():
    recipe = patched()
    whole = patched(train={"patch": None})
    with pytest.raises(DataError, match=r"9 x 16 x 16 to 20 x 30 x 33.*train\.patch"):
        job_of(whole, federation())
    with pytest.raises(RecipeError, match="expected 3 sides"):
        job_of(patched(train={"patch": [16, 16]}), federation())
    with pytest.raises(RecipeError, match=r"float32.*data\.normalise"):
        job_of(patched(data={"normalise": None}), federation())
    for wrong in ({"patch": [8, 16, 16]}, {"patch": [16]}, {"patch": None, "overlap": 0.2}):
        with pytest.raises(RecipeError, match="train"):
            patched(train=wrong)
    assert job_of(recipe, federation()).format.shape == (16, 16, 16)
