"""The robust mode: what it promises that the published algorithm does not keep."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from feda3i.errors import DataError, RecipeError
from feda3i.geometry import signed_distance
from feda3i.noise import ContourEvolution
from feda3i.noise.bias import draw_bias
from noise_shapes import blobs, disc


def ratio(mu: float, sigma: float, radius: int, draws: int = 1, **options: object) -> float:
    clean, rng = disc(radius), np.random.default_rng(radius)
    model = ContourEvolution(mu, sigma, **options)
    return float(np.mean([model(clean, rng).sum() for _ in range(draws)]) / clean.sum())


@pytest.mark.parametrize("radius", [70, 40, 20])
@pytest.mark.parametrize("mu", [8, -8, -15, 3, -3])
def test_constant_bias_gives_the_area_of_the_shifted_disc(radius: int, mu: float) -> None:
    assert ratio(mu, 0, radius) == pytest.approx(((radius + mu) / radius) ** 2, abs=0.03)


@pytest.mark.parametrize(
    ("radius", "expected"),
    [(70, (1.25, 0.79, 1.67, 0.52)), (40, (1.45, 0.65, 2.28, 0.28))],
)
def test_area_ratios_with_spread(radius: int, expected: tuple[float, ...]) -> None:
    settings_ = ((8, 5), (-8, 5), (20, 10), (-20, 10))
    for (mu, sigma), value in zip(settings_, expected, strict=True):
        assert ratio(mu, sigma, radius, 150) == pytest.approx(value, abs=0.03)


def test_shrinking_further_never_grows() -> None:
    found = [ratio(-mu, 0, 10) for mu in (2, 5, 8, 11, 15, 20, 30)]
    assert all(a >= b for a, b in pairwise(found))
    assert 0 < found[-1] < 0.05


@pytest.mark.parametrize(("mu", "sigma"), [(5, 2), (-8, 5), (0, 6), (20, 10), (-20, 10)])
@pytest.mark.parametrize("length", [59, 119, 330])
def test_the_mean_of_the_bias_is_mu(mu: float, sigma: float, length: int) -> None:
    rng = np.random.default_rng(length)
    drawn = np.array([draw_bias(length, mu, sigma, rng)[0].mean() for _ in range(300)])
    assert drawn.mean() == pytest.approx(mu, abs=0.1 * sigma)


def test_the_spread_is_sigma_at_the_start_and_half_of_it_elsewhere() -> None:
    rng = np.random.default_rng(0)
    drawn = np.array([draw_bias(330, 0, 4, rng)[0] for _ in range(1000)])
    spread = drawn.std(axis=0) / 4
    assert spread[0] == pytest.approx(1.0, abs=0.1)
    assert spread[60:270].mean() == pytest.approx(0.55, abs=0.1)
    assert drawn.std(axis=1).mean() / 4 == pytest.approx(0.55, abs=0.12)


@pytest.mark.parametrize("length", [30, 45, 59, 119, 299, 330])
def test_no_tail_oscillation_and_few_redraws(length: int) -> None:
    rng = np.random.default_rng(length)
    drawn = [draw_bias(length, 20, 10, rng, clip=1e9) for _ in range(200)]
    assert max(np.abs(bias).max() for bias, _ in drawn) < 80
    # The last pixel of a short contour is a larger share of it away from the closing value.
    assert np.mean([tries for _, tries in drawn]) < (3 if length > 100 else 8)
    assert all(abs(bias[0] - bias[-1]) < 3 for bias, _ in drawn)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(-30, 30), st.floats(0, 12))
def test_any_mask_keeps_shape_type_and_every_component(seed: int, mu: float, sigma: float) -> None:
    mask = blobs(np.random.default_rng(seed))
    noisy = ContourEvolution(mu, sigma)(mask, np.random.default_rng(seed))
    assert noisy.shape == mask.shape
    assert noisy.dtype == mask.dtype
    assert set(np.unique(noisy)) <= {0, 1}
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    reach = max(0.0, -mu) + 6 * sigma + 3  # what is left of a part lies within its own outline
    for part in range(1, count + 1):
        around = signed_distance(labels == part) <= reach
        assert noisy[around].any()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_no_noise_changes_nothing(seed: int) -> None:
    mask = blobs(np.random.default_rng(seed))
    noisy = ContourEvolution(0, 0)(mask, np.random.default_rng(seed))
    np.testing.assert_array_equal(noisy, mask)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(1.5, 20))
def test_a_constant_bias_never_reaches_farther_than_it_says(seed: int, mu: float) -> None:
    mask = blobs(np.random.default_rng(seed))
    if not mask.any():
        return
    distance = signed_distance(mask)
    grown = ContourEvolution(mu, 0)(mask, np.random.default_rng(seed))
    assert (grown >= mask).all()
    assert distance[grown == 1].max() <= mu + 1.5
    shrunk = ContourEvolution(-mu, 0)(mask, np.random.default_rng(seed))
    assert (shrunk <= mask).all()
    deep = distance < -(mu + 2.5)  # deeper than any pixel moves
    assert shrunk[deep].all()


def test_two_lobes_grow_into_each_other_without_a_hole() -> None:
    mask = disc(40, 256, (128, 78)) | disc(40, 256, (128, 178))
    mask[122:135, 78:178] = 1
    grown = ContourEvolution(20, 0)(mask, np.random.default_rng(0))
    np.testing.assert_array_equal(grown, ndimage.binary_fill_holes(grown))
    shrunk = ContourEvolution(-12, 0)(mask, np.random.default_rng(0))
    assert ndimage.label(shrunk)[1] == 2  # the bridge is gone, no debris is left


def test_a_sharp_tip_leaves_no_debris() -> None:
    wedge = np.zeros((120, 220), np.uint8)
    for col in range(10, 200):
        half = (col - 10) // 5
        wedge[60 - half : 61 + half, col] = 1
    shrunk = ContourEvolution(-8, 0)(wedge, np.random.default_rng(0))
    assert ndimage.label(shrunk, np.ones((3, 3)))[1] == 1


def test_small_objects_grow_by_one_distance_and_leave_their_core() -> None:
    dot = np.zeros((64, 64), np.uint8)
    dot[32, 32] = 1
    grown = ContourEvolution(8, 0).evolve(dot, np.random.default_rng(0))
    assert grown.parts[0].fate == "grown"
    assert grown.mask.sum() == pytest.approx(np.pi * 8.5**2, rel=0.05)
    left = ContourEvolution(-8, 2).evolve(dot, np.random.default_rng(0))
    assert left.parts[0].fate == "core"
    np.testing.assert_array_equal(left.mask, dot)


def test_holes_move_against_the_object_and_tiny_ones_stay() -> None:
    ring = disc(80) & (1 - disc(35))
    ring[128 + 55, 128] = 0
    grown = ContourEvolution(10, 0).evolve(ring, np.random.default_rng(0))
    hole = grown.mask[100:157, 100:157] == 0
    assert hole.sum() == pytest.approx(np.pi * 25**2, rel=0.08)
    assert grown.mask[128 + 55, 128] == 0
    assert [part.is_hole for part in grown.parts] == [False, True, True]
    assert grown.parts[2].fate == "kept"
    closed = ContourEvolution(30, 0, clip=40).evolve(
        disc(80) & (1 - disc(20)), np.random.default_rng(0)
    )
    assert closed.parts[1].fate == "closed"
    assert closed.mask[128, 128] == 1


def test_the_frame_is_not_a_contour() -> None:
    half = np.zeros((100, 120), np.uint8)
    half[:, :60] = 1
    shrunk = ContourEvolution(-10, 0)(half, np.random.default_rng(0))
    assert shrunk.sum() == pytest.approx(100 * 50, rel=0.03)
    assert shrunk[0, 0] == shrunk[-1, 0] == 1
    full = np.ones((50, 60), np.uint8)
    np.testing.assert_array_equal(ContourEvolution(-10, 3)(full, np.random.default_rng(0)), full)


def test_record_of_what_was_done() -> None:
    model = ContourEvolution(6, 3)
    found = model.evolve(disc(40).astype(bool), np.random.default_rng(1))
    assert found.mask.dtype == bool
    np.testing.assert_array_equal(found.mask, model(disc(40), np.random.default_rng(1)) == 1)
    (part,) = found.parts
    away = np.linalg.norm(part.moved - part.contour, axis=1)
    np.testing.assert_allclose(away, np.abs(part.bias), atol=0.75)
    assert not part.dropped.any()
    assert part.tries >= 1


def test_a_fixed_start_is_the_first_pixel_in_scan_order() -> None:
    part = ContourEvolution(1, 1, start="fixed").evolve(disc(40), np.random.default_rng(0)).parts[0]
    assert part.contour[0].tolist() == [88, 128]
    starts = {
        tuple(ContourEvolution(1, 1).evolve(disc(40), np.random.default_rng(k)).parts[0].contour[0])
        for k in range(5)
    }
    assert len(starts) == 5


@pytest.mark.parametrize("side", [128, 64])
def test_scaled_noise_does_the_same_to_a_smaller_image(side: int) -> None:
    factor = side / 256
    large = [ratio(mu, 5, 60, 40) for mu in (12, -12)]
    clean = disc(60 * factor, side)
    for mu, expected in zip((12, -12), large, strict=True):
        model = ContourEvolution(mu, 5).scaled(factor)
        rng = np.random.default_rng(0)
        found = np.mean([model(clean, rng).sum() for _ in range(80)]) / clean.sum()
        assert found == pytest.approx(expected, rel=0.05)


def test_label_maps_keep_their_classes_and_the_higher_value_wins() -> None:
    mask = np.zeros((128, 128), np.uint8)
    mask[20:60, 20:100] = 1
    mask[60:100, 20:100] = 3
    noisy = ContourEvolution(6, 0)(mask, np.random.default_rng(0))
    assert set(np.unique(noisy)) == {0, 1, 3}
    assert noisy[56, 60] == 3  # claimed by both
    assert noisy[16, 60] == 1
    shrunk = ContourEvolution(-6, 0)(mask, np.random.default_rng(0))
    assert shrunk[60, 60] == 0  # claimed by neither
    binary = (disc(20, 64) * 255).astype(np.uint8)
    assert set(np.unique(ContourEvolution(2, 1)(binary, np.random.default_rng(0)))) == {0, 255}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sigma": -1.0}, "sigma: expected a number from 0, found -1.0"),
        ({"sigma": float("nan")}, "sigma"),
        ({"mu": float("inf")}, "mu"),
        ({"mu": "5"}, "mu"),
        ({"points": 10, "degree": 10}, "more points than the degree 10"),
        ({"degree": 0}, "degree"),
        ({"mu": 31.0}, "raise clip"),
        ({"mode": "fancy"}, "robust, faithful"),
        ({"retries": 0}, "retries"),
        ({"start": "first"}, "start"),
        ({"clip": 0.0}, "clip"),
    ],
)
def test_wrong_parameters_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(RecipeError, match=text):
        ContourEvolution(**{"mu": 1.0, "sigma": 1.0, **options})


def test_wrong_masks_are_named() -> None:
    model, rng = ContourEvolution(1, 1), np.random.default_rng(0)
    with pytest.raises(DataError, match="SignedDistanceEvolution for volumes"):
        model(np.zeros((4, 4, 4), np.uint8), rng)
    with pytest.raises(DataError, match="whole numbers, found float64"):
        model(np.zeros((4, 4)), rng)
    with pytest.raises(DataError, match="found classes"):
        model.evolve(np.array([[0, 1, 2]]), rng)
    with pytest.raises(DataError, match="is this an image"):
        model(np.arange(100).reshape(10, 10), rng)
    with pytest.raises(DataError, match="found 3 values from -1 to 1"):
        model(np.array([[-1, 0, 1]]), rng)
    with pytest.raises(DataError, match="with pixels"):
        model(np.zeros((0, 4), np.uint8), rng)
