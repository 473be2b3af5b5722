"""Recipes by name, file and override; what is wrong is named with the way out."""

import math
import re

import pytest

from feda3i.errors import RecipeError
from feda3i.methods.base import make_method
from feda3i.recipe import load, validate
from feda3i.recipe.finding import built_in
from feda3i.recipe.loading import run_name
from short import TINY


def test_overrides_reach_every_level():
    recipe = load(None, ["rounds=7", "train.lr=0.1", "train.betas=[0.5, 0.9]", "method.loss=dc"])
    assert (recipe.rounds, recipe.train.lr, recipe.train.betas) == (7, 0.1, (0.5, 0.9))
    assert recipe.method.options() == {"loss": "dc"}


def test_options_belong_to_the_method_that_they_are_for(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text('[method]\nname = "feda3i"\nt1 = 3\nloss = "dc"\n')
    assert load(file, ["method=fedavg"]).method.options() == {}
    assert load(None, ["method=fedavg", "fedavg.loss=dc"]).method.options() == {"loss": "dc"}
    assert load("demo", ["feda3i.t1=4", "method=feda3i"]).method.options()["t1"] == 4
    assert load("demo", ["method=NR_Dice", "nr-dice.gamma=1.2"]).method.options() == {"gamma": 1.2}
    for order in (["method=fedavg", "feda3i.t1=4"], ["feda3i.t1=4", "method=fedavg"]):
        notes = []
        assert load("demo", [*order, "nr_dice.gamma=1.2"], notes.append).method.options() == {}
        assert notes == [
            "feda3i.t1=4 is ignored: the method is fedavg",
            "nr-dice.gamma=1.2 is ignored: the method is fedavg",
        ]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["roundz=3"], "unknown key 'roundz', did you mean 'rounds'"),
        (["train.epoch=3"], "unknown key 'train.epoch', did you mean 'epochs'"),
        (["rounds=-1"], "rounds: input should be greater than or equal to 1, found -1"),
        (["rounds"], "expected an override as key=value"),
        (["seed=x"], "seed"),
        (["data=/no/such/folder"], "no folder"),
        (["feda3i.t1=2"], "feda3i.t1=2 has no effect: the method is fedavg"),
        (["feda3i.t11=4"], "method 'feda3i' has no option 't11', did you mean 't1'"),
        (["feda3i.t1=soon"], "found 'soon'"),
        (["fedaci.t1=4"], "unknown key 'fedaci', did you mean 'feda3i'"),
    ],
)
def test_mistakes_are_named_with_the_way_out(overrides, words):
    with pytest.raises(RecipeError, match=re.escape(words)):
        load(None, overrides)


def test_unknown_options_suggest_the_nearest():
    for options, words in (({"los": 1}, "did you mean 'loss'"), ({"loss": "mse"}, "'ce' or 'dc'")):
        with pytest.raises(RecipeError, match=words):
            make_method("fedavg", options)


def test_a_recipe_survives_its_own_toml_and_its_digest_ignores_where_it_runs(tmp_path):
    overrides = ["method=fedavg", "data.size=48", "train.lr=0.25"]
    recipe = load(None, overrides)
    file = tmp_path / "r.toml"
    file.write_text(recipe.to_toml())
    assert load(file) == recipe
    for name in built_in():
        assert validate(load(name).to_dict()) == load(name)
        make_method(load(name).method.name, load(name).method.options())
    digests = [load(file, more).digest() for more in ([], ["engine.workers=2"], ["seed=1"])]
    assert digests[0] == digests[1] == recipe.digest() != digests[2]


def test_broken_files_are_named(tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("rounds = = 3")
    for source, words in (
        (bad, "not valid TOML"),
        (tmp_path / "none.toml", "there is no recipe '.*none.toml'"),
        ("dem0", "there is no recipe 'dem0', did you mean 'demo'"),
    ):
        with pytest.raises(RecipeError, match=words):
            load(source)


def test_a_data_set_and_a_folder_of_one_name(tmp_path, monkeypatch):
    recipe = load(None, [f"data={tmp_path}"])
    assert (recipe.data.name, recipe.data.options()["path"]) == ("folder", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("breast", "demo"):
        (tmp_path / name).mkdir()
    assert load("demo").title == "demo"
    assert load("own", ["data=breast"]).data.options()["path"] == "breast"
    assert load("skin_ns", ["data=./breast"]).data.options()["path"] == "./breast"
    assert load("skin_ns", ["data.name=synthetic"]).data.name == "synthetic-skin"
    breast = load("skin_ns", ["data.name=breast"]).data
    assert (breast.name, "path" in breast.options()) == ("breast", False)


def test_runs_lie_under_names_of_what_they_do(feda3i, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        code, _, err = feda3i("run", "demo", *TINY, "method=fedavg", "feda3i.t1=4")
        assert code == 0
        assert "NOTE: feda3i.t1=4 is ignored: the method is fedavg" in err
        assert "demo, fedavg, seed 0: round 1 of 2 begins" in err
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["demo-fedavg-seed0", "demo-fedavg-seed0-2"]
    (tmp_path / "Charité 2024").mkdir()
    own = load("own", ["data=Charité 2024", "seed=2"])
    assert run_name(own, "own") == "own-Charité-2024-redraw-seed2"


# -- built-in recipes give every method what its paper gives it, at their own scale ---------------


SMALL = sorted(name for name in built_in() if name.endswith("-small"))
METHODS = ("elr", "fedcorr", "feddm", "fednoro", "rmd")
PAPER_ROUNDS, PAPER_EPOCHS, PAPER_STEPS = 100, 5, 250


def steps_of_a_round(recipe):
    cases = recipe.data.options()["cases"]
    return recipe.train.epochs * math.ceil(cases / recipe.train.batch)


@pytest.mark.parametrize("name", ["demo", *SMALL])
def test_the_survey_comes_after_as_many_local_steps_as_in_the_paper_of_more_than_a_handful(name):
    recipe = load(name)
    steps = recipe.method.options()["t1"] * steps_of_a_round(recipe)
    assert 0.95 * PAPER_STEPS <= steps <= 1.05 * PAPER_STEPS
    assert 0.2 * recipe.data.options()["sites"] > 5  # those who draw too small


@pytest.mark.parametrize("name", SMALL)
def test_full_recipes_are_the_papers_and_phases_of_small_ones_cut_in_proportion(name):
    full, recipe = load(name.removesuffix("-small")), load(name)
    assert (full.noise.options()["mode"], full.rounds) == ("faithful", PAPER_ROUNDS)
    options = {method: load(name, [f"method={method}"]).method.options() for method in METHODS}
    steps, share = steps_of_a_round(recipe), recipe.rounds / PAPER_ROUNDS
    first, second = options["fedcorr"]["t1"], options["fedcorr"]["t2"]
    assert first * steps >= 2 * PAPER_STEPS / 10 > (first - 1) * steps
    assert 0.95 * PAPER_STEPS <= (first + second) * steps <= 1.05 * PAPER_STEPS
    visits = recipe.rounds * recipe.train.epochs / (PAPER_ROUNDS * PAPER_EPOCHS)
    assert options["elr"]["beta"] == pytest.approx(0.99 ** (1 / visits), abs=5e-4)
    assert options["feddm"]["stop"] == 50 * share
    warm_up = recipe.method.options()["t1"]
    assert options["fednoro"]["s1"] == options["rmd"]["t1"] == warm_up
    ramp = (options["fednoro"]["end"] - warm_up) / (recipe.rounds - warm_up)
    assert ramp == pytest.approx(39 / 90, abs=0.5 / (recipe.rounds - warm_up))
    assert options["rmd"]["strong_statistics"] is False
