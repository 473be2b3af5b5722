"""The noise of a recipe is described in one way; an option without effect is an error."""

import pytest

from feda3i.errors import RecipeError
from feda3i.simulation.annotation import annotators_of
from feda3i.simulation.federation import clean_federation

SETTING = ("noise=contour", "noise.setting=skin-ns")
DRAWN = ("noise.mu_max=9", "noise.mu_min=-9", "noise.sigma_max=3", "noise.p_d=0.5")

GIVEN = "noise.annotators={a={mu=1, sigma="


def draw(recipe):
    return annotators_of(recipe, clean_federation(recipe))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ((*SETTING, "noise.mu_max=5"), "found setting and mu_max"),
        ((*SETTING, "noise.annotators={a={mu=1, sigma=1.5}}"), "found annotators and setting"),
        ((SETTING[0], *DRAWN, "noise.annotators={}"), "found annotators and mu_max"),
        ((SETTING[0], *DRAWN[:3], "noise.p_d=abc"), "noise.p_d: .* number, found 'abc'"),
        ((SETTING[0], *DRAWN[:3]), "'p_d' is missing"),
        ((*SETTING, "noise.draw=[1]"), "noise.draw: input should be 'exact'"),
        ((*SETTING, "noise.drawn_at=8"), "noise.drawn_at: .* equal to 16"),
        (("noise.setting=skin-ns",), "noise.setting has no effect without noise"),
        (("noise=omit", *SETTING[1:], "noise.objects=2"), "objects: .* less than or equal to 1"),
        (("noise=levelset", *SETTING[1:], "noise.spacing=5"), "no option 'spacing'"),
        (("noise=contour", f"{GIVEN}1}}}}"), r"one for each of site-01, .*found a"),
        (("noise=contour", f"{GIVEN}true}}}}"), r"noise\.annotators\.a"),
        (("data.size=100000",), "expected to fit into memory"),
        (("data.sites=1000000", "data.cases=1000000"), "expected to fit into memory"),
        (("data.sites=true",), "data.sites: input should be a valid integer, found True"),
    ],
)
def test_contradictions_and_what_cannot_fit_are_errors(tiny_recipe, overrides, words):
    with pytest.raises(RecipeError, match=words):
        draw(tiny_recipe(*overrides))


def test_a_setting_can_be_taken_away(tiny_recipe):
    assert draw(tiny_recipe(*SETTING, *DRAWN, "noise.setting=none"))


@pytest.mark.parametrize("width", ["100000", "9223372036854775807", "true"])
def test_networks_that_cannot_fit_are_not_built(tiny_recipe, tmp_path, width):
    from feda3i.engine.run import run

    with pytest.raises(RecipeError, match="width"):
        run(tiny_recipe(f"model.width={width}"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["omit", "add", "swap"])
def test_noise_with_rates_of_its_own_needs_no_annotators(tiny_recipe, name):
    made = draw(tiny_recipe(f"noise={name}"))
    assert {(one.mu, one.sigma) for one in made.values()} == {(0.0, 0.0)}
