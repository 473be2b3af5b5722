"""Volumes of several sizes, trained on patches: the same bits however a run is played."""

import numpy as np
import pytest

from consortium import Trial, site_names, tiny
from feda3i.core.cases import Cases, Federation
from feda3i.core.ragged import Ragged
from feda3i.core.trees import unpack, unseal
from feda3i.engine.events import read_events
from feda3i.engine.model_file import open_predictor
from feda3i.engine.run import job_of, resume, run
from feda3i.errors import DataError, RecipeError
from feda3i.simulation.federation import federation_of
from listeners import StopAfter
from short import SHORT

VOLUMES = {"name": "synthetic-volumes", "cases": 2, "size": 24, "thick": 2.0}


def patched(rounds=2, method="feda3i", **changes):
    """Return a tiny recipe of volumes with noise in space, augmented."""
    values = {
        "data": {**VOLUMES, "normalise": "zscore"},
        "noise": {"name": "levelset", "mu_max": 9, "mu_min": -9, "sigma_max": 4, "p_d": 0.5},
        "model": {"width": 2, "norm": "group"},
        "train": {"patch": [16, 16, 16], "augment": "mri"},
    }
    for key, change in changes.items():
        values[key] = {**values.get(key, {}), **change}
    return tiny(rounds, 2, method, SHORT.get(method, {}), **values)


def events(path, kind=None):
    return list(read_events(path / "events.jsonl", kind))


def test_whole_volumes_are_surveyed_and_scored_on_both_engines(tmp_path):
    played = run(patched(), tmp_path / "run")
    assert len([event["survey"] for event in events(played.path) if "survey" in event]) == 1
    rows = [e for e in events(played.path, "score") if e["split"] == "test"][-1]["rows"]
    assert {row["class"] for row in rows} == {1, 2}
    assert np.isfinite(played.scores["dice"])
    assert Trial(tmp_path, patched(), site_names(2)).play().sha256 == played.sha256
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


@pytest.mark.slow
def test_what_is_remembered_gives_the_same_model_however_a_run_is_played(tmp_path):
    """Moved contours, before a method that remembers masks itself."""
    redrawn = {"data": {"cases": 8}, "redraw": {"on": True, "b0": [0.0]}}
    recipe = patched(4, "adele", **redrawn)
    one = run(recipe, tmp_path / "one")
    files = (one.path / "memory").glob("*.memory")
    assert "masks" in {name for f in files for name in unpack(unseal(f.read_bytes()))["memory"]}
    assert any(event.get("moved") for event in events(one.path))
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "two", listener=StopAfter(2))
    assert resume(tmp_path / "two").sha256 == one.sha256
    assert Trial(tmp_path, recipe, site_names(2)).play().sha256 == one.sha256
    workers = run(patched(4, "adele", **redrawn, engine={"workers": 2}), tmp_path / "workers")
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


def test_a_site_without_foreground_is_not_rated_and_a_patch_may_be_larger_than_a_volume(tmp_path):
    recipe = patched(2, train={"foreground": 1.0})
    result = run(recipe, tmp_path / "run", federation=federation(foreground=False))
    (survey,) = [event["survey"] for event in events(result.path) if "survey" in event]
    assert survey["parts"][0]["grouping"]["labels"][0] == "unrated"
    assert np.isfinite(result.scores["dice"])
    padded = patched(1, "fedavg", train={"patch": [32, 48, 48]})
    assert np.isfinite(run(padded, tmp_path / "large", federation=federation()).scores["dice"])


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
