"""Annotators of a federation: the paper's settings, the authors' own draw, models by name."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from feda3i.data.partition import divide
from feda3i.errors import RecipeError
from feda3i.noise import (
    SETTINGS,
    Annotator,
    annotators_of_setting,
    build_model,
    draw_annotators,
    get_setting,
)


def test_settings_of_the_paper() -> None:
    assert astuple(get_setting("SKIN_NS")) == (20, -20, 10, 0.2)
    assert astuple(SETTINGS["breast-ne"]) == (25, -15, 5, 0.8)
    with pytest.raises(RecipeError, match="did you mean 'skin-ns'"):
        get_setting("skin-n")


SITES = [f"site-{number:02}" for number in range(1, 51)]


def test_numbers_ranges_and_means() -> None:
    for sites, p_d, growing in ((50, 0.2, 10), (50, 0.8, 40), (50, 1.0, 50), (7, 0.2, 2)):
        exact = draw_annotators(sites, 25, -15, 5, p_d, np.random.default_rng(1))
        assert sum(a.mu > 0 for a in exact) == growing
    drawn = draw_annotators(4000, 25, -15, 5, 0.2, np.random.default_rng(0), "bernoulli")
    mu, sigma = np.array([(a.mu, a.sigma) for a in drawn]).T
    assert (mu > 0).mean() == pytest.approx(0.2, abs=0.03)
    assert -15 <= mu.min() <= mu.max() <= 25
    assert mu[mu > 0].mean() == pytest.approx(12.5, abs=0.8)
    assert mu[mu < 0].mean() == pytest.approx(-7.5, abs=0.4)
    assert 2.5 <= sigma.min() <= sigma.max() <= 5
    assert sigma.mean() == pytest.approx(3.75, abs=0.1)


def test_annotators_scale_with_the_images_and_ignore_the_order_of_sites() -> None:
    setting = get_setting("skin-ne")
    one = annotators_of_setting(setting, ["b", "a", "c"], (64, 64), seed=3)
    assert one == annotators_of_setting(setting, ["c", "b", "a"], (64, 48), seed=3)
    assert one != annotators_of_setting(setting, ["a", "b", "c"], (64, 64), seed=4)
    full = annotators_of_setting(setting, ["a", "b", "c"], (256, 256), seed=3)
    assert one == {site: annotator.scaled(0.25) for site, annotator in full.items()}


@pytest.mark.parametrize(
    ("setting", "mean", "mu", "growing"),
    [
        ("skin-ns", -6.470, (-10.976, -14.304, -12.055), 10),
        ("skin-ne", 8.364, (13.720, -17.880, 15.069), 40),
    ],
)
def test_the_published_draw_is_that_of_the_authors_for_every_seed(setting, mean, mu, growing):
    for seed in (0, 7):
        drawn = annotators_of_setting(get_setting(setting), SITES, (256, 256), seed, "published")
        found = np.array([drawn[site].mu for site in SITES])
        assert found.mean() == pytest.approx(mean, abs=5e-4)
        assert found[:3] == pytest.approx(mu, abs=5e-4)
        assert (found > 0).sum() == growing
        sigma = [drawn[site].sigma for site in SITES[:3]]
        assert sigma == pytest.approx((6.084, 7.826, 9.326), abs=5e-4)
    with pytest.raises(RecipeError, match="published no other draw"):
        annotators_of_setting(get_setting("breast-ns"), SITES, (256, 256), 0, "published")
    # Sites hold the cases of the authors, too.
    names, order = ["x"] * 2000, np.arange(2000)
    np.random.RandomState(0).shuffle(order)
    for seed in (0, 1):
        draw = np.random.default_rng(seed)
        part = divide("published", sources=names, folders=names, sites=50, rng=draw)
        for number, site in enumerate(SITES):
            expected = np.sort(order[40 * number : 40 * number + 40])
            assert np.array_equal(part[site], expected)


def test_models_of_an_annotator() -> None:
    for name, options in (("contour", {"mode": "faithful"}), ("levelset", {})):
        moving = build_model(name, Annotator(-5.0, 2.0, scale=0.25), options)
        assert (moving.mu, moving.sigma, moving.clip) == (-5, 2, 7.5)
        assert getattr(moving, "mode", "faithful") == "faithful"
    coin = build_model("morphology", Annotator(3.0, 3.0))
    assert coin.p_dilate == pytest.approx(0.8413, abs=1e-4)
    assert (coin.low, coin.high) == (0, 6)
    assert build_model("morphology", Annotator(-3.0, 0.0)).p_dilate == 0
    assert build_model("morphology", Annotator(0.0, 0.0)).p_dilate == 0.5
    walk = build_model("markov", Annotator(-25.0, 5.0))
    assert walk.theta1 == pytest.approx(0, abs=1e-3)
    assert walk.steps == 254
    flips = build_model("flip", Annotator(5.0, 0.0, scale=0.25))
    assert (flips.rho_01, flips.rho_10) == (0.2, 0)


def test_wrong_values_and_options_are_named() -> None:
    values = {"n": 5, "mu_max": 20, "mu_min": -20, "sigma_max": 10, "p_d": 0.2}
    for change in ({"n": 0}, {"mu_max": -1}, {"mu_min": 1}, {"p_d": 1.1}, {"draw": "half"}):
        with pytest.raises(RecipeError, match=f"{next(iter(change))}|expected a site"):
            draw_annotators(**values | change, rng=np.random.default_rng(0))
    for name, options, said in (
        ("contour", {"moode": "robust"}, "no option 'moode', did you mean 'mode'"),
        ("contour", {"mu": 3}, "no option 'mu'"),
        ("contur", {}, "unknown noise model 'contur'"),
    ):
        with pytest.raises(RecipeError, match=said):
            build_model(name, Annotator(1.0, 1.0), options)


def test_a_plug_in_is_called_with_mu_and_sigma(tmp_path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "class Shift:\n"
        "    def __init__(self, mu, sigma, axis=0):\n"
        "        self.step, self.axis = round(mu), axis\n"
        "    def __call__(self, mask, rng):\n"
        "        import numpy as np\n"
        "        return np.roll(mask, self.step, self.axis)\n"
        "NOT_A_MODEL = lambda mu, sigma: 3\n"
    )
    someone = Annotator(2.0, 1.0)
    model = build_model(f"{file}:Shift", someone, {"axis": 1})
    mask = np.eye(5, dtype=np.uint8)
    np.testing.assert_array_equal(model(mask, np.random.default_rng(0)), np.roll(mask, 2, 1))
    with pytest.raises(RecipeError, match="cannot be made"):
        build_model(f"{file}:Shift", someone, {"way": 1})
    with pytest.raises(RecipeError, match="expected a callable"):
        build_model(f"{file}:NOT_A_MODEL", someone)
