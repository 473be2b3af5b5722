"""A run is called after what it does; a list of overrides serves all methods of a sweep."""

import pytest

from feda3i.errors import RecipeError
from feda3i.recipe import load
from feda3i.recipe.naming import name_of
from short import TINY


def names(source, *overrides):
    name = name_of(load(source, overrides), load(source), source)
    return name.title, name.stem


@pytest.mark.parametrize(
    ("source", "overrides", "title", "stem"),
    [
        ("skin_ns-small", [], "SKIN N_S small", "skin_ns-small-feda3i-seed0"),
        (
            "skin_ns-small",
            ["noise.setting=skin-ne", "method=fedavg", "seed=2", "data=synthetic"],
            "SKIN N_S small, synthetic-skin, fedavg, seed 2, setting skin-ne",
            "skin_ns-small-synthetic-skin-fedavg-seed2",
        ),
        ("demo", ["feda3i.t1=4", "train.lr=0.010"], "demo, t1 4, lr 0.01", "demo-feda3i-seed0"),
        ("demo", ["engine.workers=1", "engine.device=cpu"], "demo", "demo-feda3i-seed0"),
        ("demo", ["title=My own: one"], "My own: one", "My-own-one-feda3i-seed0"),
        ("skin_ns-small", ["method=rmd"], "SKIN N_S small, rmd", "skin_ns-small-rmd-seed0"),
    ],
)
def test_names_come_from_what_differs(source, overrides, title, stem):
    assert names(source, *overrides) == (title, stem)


def test_own_folders_name_the_run_and_titles_end(tmp_path):
    (tmp_path / "Charité 2024").mkdir()
    title, stem = names("demo", f"data={tmp_path}/Charité 2024")
    assert (title, stem) == ("demo, Charité 2024", "demo-Charité-2024-feda3i-seed0")
    many = ["rounds=3", "data.size=32", "data.sites=2", "train.lr=1", "train.batch=1"]
    title, _ = names("demo", *many)
    assert title == "demo, rounds 3, sites 2, size 32, batch 1, 1 more changes"


def test_runs_lie_under_their_names(feda3i, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = (*TINY, "method=fedavg", "feda3i.t1=4")
    code, _, err = feda3i("run", "demo", *overrides)
    assert code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == "demo-fedavg-seed0"
    assert "NOTE: feda3i.t1=4 is ignored: the method is fedavg" in err
    assert "demo, fedavg, rounds 2" in err
    assert 'title = "demo, fedavg' in (folder / "recipe.toml").read_text("utf-8")
    feda3i("run", "demo", *overrides, "--quiet")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        *(folder.name, f"{folder.name}-2")
    ]


def test_options_of_other_methods_are_left_out_with_a_note():
    for order in (["method=fedavg", "feda3i.t1=4"], ["feda3i.t1=4", "method=fedavg"]):
        notes = []
        recipe = load("demo", [*order, "nr_dice.gamma=1.2"], notes.append)
        assert recipe.method.options() == {}
        assert notes == [
            "feda3i.t1=4 is ignored: the method is fedavg",
            "nr-dice.gamma=1.2 is ignored: the method is fedavg",
        ]
    with pytest.raises(RecipeError, match=r"feda3i\.t1=2 has no effect: the method is fedavg"):
        load(None, ["feda3i.t1=2"])
    assert load("demo", ["feda3i.t1=4", "method=feda3i"]).method.options()["t1"] == 4
    assert load("demo", ["method=NR_Dice", "nr-dice.gamma=1.2"]).method.options() == {"gamma": 1.2}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("feda3i.t11=4", "method 'feda3i' has no option 't11', did you mean 't1'"),
        ("feda3i.t1=soon", "found 'soon'"),
        ("fedaci.t1=4", "unknown key 'fedaci.t1', did you mean 'feda3i'"),
    ],
)
def test_what_no_method_has_is_still_an_error(override, words):
    with pytest.raises(RecipeError) as caught:
        load("demo", ["method=fedavg", override])
    assert words in str(caught.value)


def test_method_means_the_chosen_method(feda3i):
    code, _, err = feda3i("run", "demo", "method=fedavg", "method.t1=4")
    assert code == 2
    assert "method 'fedavg' has no option 't1'" in err


def test_a_data_set_and_a_folder_of_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load("skin_ns", ["data=breast"]).data.name == "breast"
    (tmp_path / "breast").mkdir()
    (tmp_path / "synthetic").mkdir()
    for name in ("breast", "synthetic"):
        with pytest.raises(RecipeError) as caught:
            load("skin_ns", [f"data={name}"])
        assert f"write data=./{name} for the one on disk, data.name={name}" in str(caught.value)
    assert load("skin_ns", ["data=./breast"]).data.options()["path"] == "./breast"
    assert load("skin_ns", ["data.name=breast"]).data.name == "breast"
    assert load("skin_ns", ["data.name=synthetic"]).data.name == "synthetic-skin"
    assert "path" not in load("skin_ns", ["data.name=breast"]).data.options()
