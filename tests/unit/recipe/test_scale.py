"""Built-in recipes give every method what its paper gives it, at their own scale."""

import math

import pytest

from feda3i.recipe import load
from feda3i.recipe.finding import built_in

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
