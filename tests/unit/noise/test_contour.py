"""Contour evolution: areas, the oracle of the faithful mode, what the robust one promises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_contour import naive_evolution
from scipy import ndimage

from feda3i.errors import DataError, RecipeError
from feda3i.geometry import signed_distance
from feda3i.noise import Annotator, ContourEvolution, NoiseWarning, SignedDistanceEvolution
from feda3i.noise.bias import draw_bias
from feda3i.noise.levelset import smooth_field
from noise_shapes import blobs, disc

pytestmark = pytest.mark.filterwarnings("ignore::feda3i.noise.model.NoiseWarning")


def faithful(mu: float, sigma: float) -> ContourEvolution:
    return ContourEvolution(mu, sigma, mode="faithful")


def ratio(model: ContourEvolution, clean: np.ndarray, draws: int = 1) -> float:
    rng = np.random.default_rng(0)
    return float(np.mean([model(clean, rng).sum() for _ in range(draws)]) / clean.sum())


def drawn(model: ContourEvolution, mask: np.ndarray, seed: int = 0) -> np.ndarray:
    return model(mask, np.random.default_rng(seed))


# Means of 20 draws of the published code, discs in 256 x 256: by radius, (mu, sigma): area ratio.
AREAS = {
    70: {(8, 5): 1.25, (-8, 5): 0.79, (20, 10): 1.67, (-20, 10): 0.52},
    40: {(8, 5): 1.45, (-8, 5): 0.65, (20, 10): 2.28, (-20, 10): 0.28},
}


@pytest.mark.parametrize("mode", ["robust", "faithful"])
@pytest.mark.parametrize("radius", AREAS)
def test_area_ratios_of_the_published_code(mode, radius: int) -> None:
    for (mu, sigma), value in AREAS[radius].items():
        found = ratio(ContourEvolution(mu, sigma, mode=mode), disc(radius), 150)
        assert found == pytest.approx(value, abs=0.03)
    shifted = pytest.approx(((radius + 8) / radius) ** 2, abs=0.03)
    assert ratio(ContourEvolution(8, 0, mode=mode), disc(radius)) == shifted


def test_scaled_noise_does_the_same_to_a_smaller_image() -> None:
    for mu in (12, -12):
        expected = ratio(ContourEvolution(mu, 5), disc(60), 40)
        for side in (128, 64):
            model = ContourEvolution.for_annotator(Annotator(mu, 5).scaled(side / 256))
            found = ratio(model, disc(60 * side / 256, side), 80)
            assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("length", [30, 59, 119, 330])
def test_biases_have_mean_and_spread_and_their_ends_meet_after_few_redraws(length: int) -> None:
    for mu, sigma in ((-8, 5), (0, 4), (20, 10)):
        rng, model = np.random.default_rng(length), ContourEvolution(mu, sigma)
        found = [draw_bias(model, length, rng) for _ in range(500)]
        biases = np.array([bias for bias, _ in found])
        assert biases.mean() == pytest.approx(mu, abs=0.1 * sigma)
        assert np.abs(biases).max() <= 30
        assert np.abs(biases[:, 0] - biases[:, -1]).max() < 3
        # The last pixel of a short contour is a larger share of it away from the closing value.
        assert np.mean([tries for _, tries in found]) < (4 if length > 100 else 12)
    # sigma at the start, half of it elsewhere
    spread = np.array([draw_bias(ContourEvolution(0, 4), 330, rng)[0] for _ in range(1000)]) / 4
    assert spread.std(axis=0)[0] == pytest.approx(1.0, abs=0.1)
    assert spread.std(axis=0)[60:270].mean() == pytest.approx(0.55, abs=0.1)


@pytest.mark.parametrize("block", range(8))
def test_same_bits_as_the_oracle(block: int, monkeypatch) -> None:
    """25 random masks a block, 200 in all, with the same generator on both sides."""
    monkeypatch.setattr("feda3i.noise.bias.REDRAWS", 5)  # the oracle is slow
    moved = 0
    for seed in range(25 * block, 25 * block + 25):
        draw = np.random.default_rng([seed, 7])
        mask = blobs(draw)
        mu, sigma = float(draw.uniform(-12, 12)), float(draw.uniform(0.5, 6))
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        noisy = faithful(mu, sigma)(mask, ours)
        expected = naive_evolution(mask, mu, sigma, theirs, retries=5)
        np.testing.assert_array_equal(noisy, expected, err_msg=f"seed {seed}")
        # The generators are at the same place too: neither drew more than the other.
        assert ours.bit_generator.state == theirs.bit_generator.state
        moved += int((noisy != mask).any())
    assert moved >= 20


def test_artefacts_of_the_published_algorithm_and_its_repair() -> None:
    inside_out = [ratio(faithful(mu, 0), disc(10)) for mu in (-8, -15)]
    assert inside_out[0] < inside_out[1], "shrunk past its core an object grows again"
    robust = [ratio(ContourEvolution(mu, 0), disc(10)) for mu in (-5, -8, -15, -30)]
    assert all(a >= b for a, b in pairwise(robust))
    assert 0 < robust[-1] < 0.05
    with pytest.warns(NoiseWarning, match="lost the object"):
        assert not drawn(faithful(2, 1), disc(3, 32)).any()
    mask = disc(30, 128)
    mask[64, 64] = 0
    mask[5:8, 5:9] = 1  # 12 pixels
    assert not drawn(faithful(0, 0), mask)[:20, :20].any(), "small components vanish"
    assert drawn(faithful(2, 0), mask)[64, 64] == 1, "and so do holes"
    wide = np.zeros((60, 200), np.uint8)
    wide[15:45, 120:170] = 1  # columns beyond the number of rows
    for mask in (wide, np.ascontiguousarray(wide.T)):
        assert drawn(faithful(4, 0), mask).sum() == pytest.approx(38 * 58, rel=0.04)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(-30, 30), st.floats(0, 12))
def test_any_mask_keeps_every_component(seed: int, mu: float, sigma: float) -> None:
    mask = blobs(np.random.default_rng(seed))
    noisy = drawn(ContourEvolution(mu, sigma), mask, seed)
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    reach = max(0.0, -mu) + 6 * sigma + 3  # what is left of a part lies within its own outline
    for part in range(1, count + 1):
        around = signed_distance(labels == part) <= reach
        assert noisy[around].any()
    np.testing.assert_array_equal(drawn(ContourEvolution(0, 0), mask, seed), mask)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(1.5, 20))
def test_a_constant_bias_never_reaches_farther_than_it_says(seed: int, mu: float) -> None:
    mask = blobs(np.random.default_rng(seed))
    if not mask.any():
        return
    distance = signed_distance(mask)
    grown = drawn(ContourEvolution(mu, 0), mask, seed)
    assert (grown >= mask).all()
    assert distance[grown == 1].max() <= mu + 1.5
    shrunk = drawn(ContourEvolution(-mu, 0), mask, seed)
    assert (shrunk <= mask).all()
    deep = distance < -(mu + 2.5)  # deeper than any pixel moves
    assert shrunk[deep].all()


def test_two_lobes_join_without_a_hole_and_part_without_debris() -> None:
    mask = disc(40, 256, (128, 78)) | disc(40, 256, (128, 178))
    mask[122:135, 78:178] = 1
    grown = drawn(ContourEvolution(20, 0), mask)
    np.testing.assert_array_equal(grown, ndimage.binary_fill_holes(grown))
    shrunk = drawn(ContourEvolution(-12, 0), mask)
    assert ndimage.label(shrunk)[1] == 2  # the bridge is gone, no debris is left
    wedge = np.triu(np.ones((200, 200), np.uint8), 20)  # a sharp tip
    assert ndimage.label(drawn(ContourEvolution(-8, 0), wedge), np.ones((3, 3)))[1] == 1


def test_holes_move_against_the_object_and_tiny_ones_stay() -> None:
    ring = disc(80) & (1 - disc(35))
    ring[128 + 55, 128] = 0
    grown = drawn(ContourEvolution(10, 0), ring)
    hole = grown[100:157, 100:157] == 0
    assert hole.sum() == pytest.approx(np.pi * 25**2, rel=0.08)
    assert grown[128 + 55, 128] == 0
    closed = drawn(ContourEvolution(30, 0), disc(80) & (1 - disc(20)))
    assert closed[128, 128] == 1


def test_the_frame_is_not_a_contour_and_a_dot_has_one() -> None:
    half = np.zeros((100, 120), np.uint8)
    half[:, :60] = 1
    shrunk = drawn(ContourEvolution(-10, 0), half)
    assert shrunk.sum() == pytest.approx(100 * 50, rel=0.03)
    assert shrunk[0, 0] == shrunk[-1, 0] == 1
    full = np.ones((50, 60), np.uint8)
    np.testing.assert_array_equal(drawn(ContourEvolution(-10, 3), full), full)
    dot = np.zeros((64, 64), np.uint8)
    dot[32, 32] = 1
    assert drawn(ContourEvolution(8, 0), dot).sum() == pytest.approx(np.pi * 8.5**2, rel=0.05)
    np.testing.assert_array_equal(drawn(ContourEvolution(-8, 2), dot), dot)


def test_label_maps_keep_their_classes_and_the_higher_value_wins() -> None:
    mask = np.zeros((128, 128), np.uint8)
    mask[20:60, 20:100] = 1
    mask[60:100, 20:100] = 3
    noisy = drawn(ContourEvolution(6, 0), mask)
    assert set(np.unique(noisy)) == {0, 1, 3}
    assert noisy[56, 60] == 3  # claimed by both
    assert noisy[16, 60] == 1
    assert drawn(ContourEvolution(-6, 0), mask)[60, 60] == 0  # claimed by neither


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (ContourEvolution, {"sigma": -1.0}, "sigma: input should be greater than or equal to 0, f"),
        (ContourEvolution, {"mu": "5"}, "mu"),
        (ContourEvolution, {"mu": 31.0}, "mu: expected at most 30 pixels"),
        (ContourEvolution, {"mode": "fancy"}, "'robust' or 'faithful'"),
        (SignedDistanceEvolution, {"mu": 40.0}, "mu: expected at most 30 pixels"),
        (SignedDistanceEvolution, {"spacing": (1, 0)}, "spacing"),
    ],
)
def test_wrong_parameters_are_named(kind: type, options: dict[str, object], text: str) -> None:
    with pytest.raises(RecipeError, match=text):
        kind(**{"mu": 1.0, "sigma": 1.0, **options})


# -- one structure inside another: no background opens between them when both shrink --------------


def test_no_ring_of_background_between_shrunk_classes_and_what_nests_nothing():
    nested = disc(40, 128) + disc(14, 128)
    for kind in (ContourEvolution, faithful, SignedDistanceEvolution):
        noisy = drawn(kind(-5.0, 2.0), nested)
        assert (noisy == 2).sum() < (nested == 2).sum()
        assert (noisy > 0).sum() < (nested > 0).sum()
        assert (noisy[disc(25, 128) != 0] > 0).all()
    mask = nested.copy()
    mask[disc(5, 128) != 0] = 0  # background within the inner class
    assert drawn(ContourEvolution(-2.0, 0.0), mask)[64, 64] == 0
    ring = disc(40, 128) - disc(20, 128)
    ring[disc(8, 128) != 0] = 2  # an island in a lake
    assert (drawn(ContourEvolution(-3.0, 0.0), ring)[64, 64 + 11 : 64 + 19] == 0).all()
    mask = np.where(disc(20, 64), 1, 2).astype(np.uint8)  # the lower class inside stays
    for model in (ContourEvolution(0.0, 0.0), SignedDistanceEvolution(0.0, 0.0)):
        np.testing.assert_array_equal(model(mask, 0), mask)
    noisy = SignedDistanceEvolution(-3.0, 0.0)(mask, 0)
    assert 0 < (noisy == 1).sum() < (mask == 1).sum()


# -- by signed distance ---------------------------------------------------------------------------


@pytest.mark.parametrize(("radius", "mu"), [(70, 8), (40, -8), (40, 8), (20, 8), (40, -15)])
def test_constant_bias_is_the_level_set_of_the_distance(radius: int, mu: float) -> None:
    clean = disc(radius)
    noisy = SignedDistanceEvolution(mu, 0)(clean, np.random.default_rng(0))
    np.testing.assert_array_equal(noisy, signed_distance(clean) <= mu)
    assert noisy.sum() / clean.sum() == pytest.approx(((radius + mu) / radius) ** 2, abs=0.04)


def test_the_border_moves_by_mu_with_the_spread_of_the_contour_model() -> None:
    """Offsets of the noisy border along rays from the centre: mean mu, spread 0.5 to 1 sigma."""
    rng, clean = np.random.default_rng(0), disc(60)
    model = SignedDistanceEvolution(0, 5)
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    steps = np.arange(0, 100, 0.5)
    rows = np.rint(128 + np.outer(np.sin(angles), steps)).astype(int)
    cols = np.rint(128 + np.outer(np.cos(angles), steps)).astype(int)
    offsets = np.array([model(clean, rng)[rows, cols].sum(axis=1) / 2 for _ in range(200)]) - 60.5
    assert offsets.mean() == pytest.approx(0, abs=0.5)
    spread = offsets.std(axis=0) / 5  # 1 at the start pixel, 0.5 far from it; any may be the start
    assert 0.45 < spread.min() < spread.max() < 0.8


def test_components_holes_and_frame() -> None:
    mask = np.zeros((60, 90), np.uint8)
    mask[10:50, 0:40] = 1
    mask[25:35, 15:25] = 0
    mask[20:22, 70:72] = 1
    shrunk = SignedDistanceEvolution(-3, 0)(mask, np.random.default_rng(0))
    assert shrunk[30, 0] == 1  # the frame is not a border
    assert shrunk[30, 13] == 0  # the hole grew
    assert ndimage.label(shrunk)[1] == 2  # the small object left its core
    grown = SignedDistanceEvolution(6, 0)(mask, np.random.default_rng(0))
    assert grown[30, 20] == 1
    assert SignedDistanceEvolution(-30, 0)(disc(10, 64), np.random.default_rng(0)).any()
    full = np.ones((5, 6, 7), np.uint8)
    np.testing.assert_array_equal(SignedDistanceEvolution(-2, 1)(full, 0), full)
    with pytest.raises(DataError, match="one per pixel size"):
        SignedDistanceEvolution(4, 0, spacing=(1, 1))(full, 0)


def test_the_field_is_standard_normal_everywhere_and_smooth() -> None:
    axes = [np.arange(30.0), np.arange(24.0)]
    rng = np.random.default_rng(0)
    drawn = np.array([smooth_field(axes, 6.0, rng) for _ in range(1500)])
    np.testing.assert_allclose(drawn.std(axis=0), 1, atol=0.09)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.1)
    near = np.corrcoef(drawn[:, 10, 10], drawn[:, 10, 11])[0, 1]
    far = np.corrcoef(drawn[:, 2, 2], drawn[:, 28, 20])[0, 1]
    assert near > 0.95 > 0.1 > abs(far)
