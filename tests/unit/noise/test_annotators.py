"""Annotators of a federation: M(mu_max, mu_min, sigma_max, p_d) and the paper's settings."""

from __future__ import annotations

import numpy as np
import pytest

from feda3i.errors import RecipeError
from feda3i.noise import (
    SETTINGS,
    Annotator,
    annotators_of_setting,
    build_model,
    draw_annotators,
    get_setting,
)


@pytest.mark.parametrize(
    ("name", "mu_max", "mu_min", "sigma_max", "p_d"),
    [
        ("skin-ns", 20, -20, 10, 0.2),
        ("skin-ne", 25, -25, 10, 0.8),
        ("breast-ns", 25, -15, 5, 0.2),
        ("breast-ne", 25, -15, 5, 0.8),
    ],
)
def test_settings_of_the_paper(
    name: str, mu_max: float, mu_min: float, sigma_max: float, p_d: float
) -> None:
    found = get_setting(name)
    assert (found.mu_max, found.mu_min, found.sigma_max, found.p_d) == (
        mu_max,
        mu_min,
        sigma_max,
        p_d,
    )
    assert get_setting(name.upper().replace("-", "_")) is SETTINGS[name]


@pytest.mark.parametrize(("p_d", "growing"), [(0.2, 10), (0.8, 40), (0.0, 0), (1.0, 50), (0.5, 25)])
def test_exact_numbers_of_sites(p_d: float, growing: int) -> None:
    drawn = draw_annotators(50, 25, -15, 5, p_d, np.random.default_rng(1))
    assert sum(a.mu > 0 for a in drawn) == growing
    # 7 sites at 0.2: int(0.8 * 7) = 5 shrink.
    few = draw_annotators(7, 25, -15, 5, 0.2, np.random.default_rng(1))
    assert sum(a.mu < 0 for a in few) == 5


def test_ranges_and_means() -> None:
    drawn = draw_annotators(4000, 25, -15, 5, 0.2, np.random.default_rng(0), "bernoulli")
    mu, sigma = np.array([a.mu for a in drawn]), np.array([a.sigma for a in drawn])
    assert (mu > 0).mean() == pytest.approx(0.2, abs=0.03)
    assert mu[mu > 0].max() <= 25
    assert mu[mu > 0].mean() == pytest.approx(12.5, abs=0.8)
    assert mu[mu < 0].min() >= -15
    assert mu[mu < 0].mean() == pytest.approx(-7.5, abs=0.4)
    assert 2.5 <= sigma.min() <= sigma.max() <= 5
    assert sigma.mean() == pytest.approx(3.75, abs=0.1)


def test_scale_multiplies_everything() -> None:
    full = draw_annotators(5, 20, -20, 10, 0.2, np.random.default_rng(0))
    half = draw_annotators(5, 20, -20, 10, 0.2, np.random.default_rng(0), scale=0.5)
    for a, b in zip(full, half, strict=True):
        assert (b.mu, b.sigma, b.scale) == (a.mu / 2, a.sigma / 2, 0.5)


def test_annotators_do_not_depend_on_the_order_of_sites() -> None:
    setting = get_setting("skin-ne")
    one = annotators_of_setting(setting, ["b", "a", "c"], (64, 64), seed=3)
    assert one == annotators_of_setting(setting, ["c", "b", "a"], (64, 48), seed=3)
    assert one != annotators_of_setting(setting, ["a", "b", "c"], (64, 64), seed=4)
    assert one["a"].scale == 0.25


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"n": 0}, "expected a site and a scale"),
        ({"mu_max": -1}, "mu_max"),
        ({"mu_min": 1}, "mu_min"),
        ({"sigma_max": float("nan")}, "sigma_max"),
        ({"p_d": 1.1}, "p_d"),
        ({"draw": "half"}, "exact, bernoulli"),
        ({"scale": 0}, "scale"),
    ],
)
def test_wrong_values_are_named(change: dict[str, object], text: str) -> None:
    values = {"n": 5, "mu_max": 20, "mu_min": -20, "sigma_max": 10, "p_d": 0.2} | change
    with pytest.raises(RecipeError, match=text):
        draw_annotators(**values, rng=np.random.default_rng(0))
    with pytest.raises(RecipeError, match="did you mean 'skin-ns'"):
        get_setting("skin-n")


def test_models_of_an_annotator() -> None:
    small = Annotator(-5.0, 2.0, scale=0.25)
    contour = build_model("contour", small, {"mode": "faithful"})
    assert (contour.mu, contour.sigma, contour.clip, contour.mode) == (-5, 2, 7.5, "faithful")
    level = build_model("levelset", small)
    assert (level.mu, level.clip) == (-5, 7.5)
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


def test_wrong_options_are_named() -> None:
    someone = Annotator(1.0, 1.0)
    with pytest.raises(RecipeError, match="no option 'moode', did you mean 'mode'"):
        build_model("contour", someone, {"moode": "robust"})
    with pytest.raises(RecipeError, match="comes from the annotator"):
        build_model("contour", someone, {"mu": 3})
    with pytest.raises(RecipeError, match="unknown noise model 'contur'"):
        build_model("contur", someone)


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
    model = build_model(f"{file}:Shift", Annotator(2.0, 1.0), {"axis": 1})
    mask = np.eye(5, dtype=np.uint8)
    np.testing.assert_array_equal(model(mask, np.random.default_rng(0)), np.roll(mask, 2, 1))
    with pytest.raises(RecipeError, match="cannot be made"):
        build_model(f"{file}:Shift", Annotator(2.0, 1.0), {"way": 1})
    with pytest.raises(RecipeError, match="expected a callable"):
        build_model(f"{file}:NOT_A_MODEL", Annotator(2.0, 1.0))
