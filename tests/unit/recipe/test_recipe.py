import pytest

from feda3i.errors import RecipeError
from feda3i.methods.base import make_method
from feda3i.recipe import load, validate
from feda3i.recipe.finding import built_in, find


def test_overrides_reach_every_level():
    recipe = load(None, ["rounds=7", "train.lr=0.1", "train.betas=[0.5, 0.9]", "method.loss=dc"])
    assert (recipe.rounds, recipe.train.lr, recipe.train.betas) == (7, 0.1, (0.5, 0.9))
    assert recipe.method.options() == {"loss": "dc"}


def test_a_method_is_named_and_its_options_follow():
    recipe = load(None, ["method=fedavg", "fedavg.loss=dc"])
    assert recipe.method.name == "fedavg"
    assert recipe.method.options() == {"loss": "dc"}


def test_another_method_drops_the_options_of_the_old_one(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text('[method]\nname = "feda3i"\nt1 = 3\nloss = "dc"\n')
    assert load(file, ["method=fedavg"]).method.options() == {}


def test_a_path_is_a_folder_of_cases(tmp_path):
    recipe = load(None, [f"data={tmp_path}"])
    assert recipe.data.name == "folder"
    assert recipe.data.options()["path"] == str(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["roundz=3"], "unknown key 'roundz', did you mean 'rounds'"),
        (["train.epoch=3"], "unknown key 'train.epoch', did you mean 'epochs'"),
        (["trian.epochs=3"], "did you mean 'train'"),
        (["rounds=-1"], "rounds: input should be greater than or equal to 1, found -1"),
        (["rounds"], "expected an override as key=value"),
        (["engine.workers=0"], "engine.workers"),
        (["seed=x"], "seed"),
        (["data=/no/such/folder"], "no folder"),
    ],
)
def test_mistakes_are_named_with_the_way_out(overrides, words):
    with pytest.raises(RecipeError) as caught:
        load(None, overrides)
    assert words in str(caught.value)


def test_unknown_methods_and_options_suggest_the_nearest():
    with pytest.raises(RecipeError, match="did you mean 'fedavg'"):
        make_method("fedavgg", {})
    with pytest.raises(RecipeError, match="did you mean 'loss'"):
        make_method("fedavg", {"los": "ce"})
    with pytest.raises(RecipeError, match="'ce' or 'dc'"):
        make_method("fedavg", {"loss": "mse"})


def test_a_recipe_survives_its_own_toml(tmp_path):
    recipe = load(None, ["method=fedavg", "data.size=48", "train.lr=0.25"])
    file = tmp_path / "r.toml"
    file.write_text(recipe.to_toml())
    assert load(file) == recipe
    assert load(file).digest() == recipe.digest()


def test_the_digest_ignores_where_a_run_runs():
    one, two = load(None, ["engine.workers=1"]), load(None, ["engine.workers=2"])
    assert one.digest() == two.digest() != load(None, ["seed=1"]).digest()


def test_broken_files_are_named(tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("rounds = = 3")
    with pytest.raises(RecipeError, match="not valid TOML"):
        load(bad)
    with pytest.raises(RecipeError, match="nothing readable"):
        load(tmp_path / "none.toml")
    with pytest.raises(RecipeError, match="there is no recipe 'dem0', did you mean 'demo'"):
        find("dem0")


def test_a_folder_does_not_hide_a_built_in_recipe(tmp_path, monkeypatch):
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load("demo").title == "demo"


@pytest.mark.parametrize("name", built_in())
def test_built_in_recipes_are_valid(name):
    recipe = load(name)
    make_method(recipe.method.name, recipe.method.options())
    assert validate(recipe.to_dict()) == recipe
