"""The faithful mode against the per-pixel oracle and what was measured on the published code."""

from __future__ import annotations

import numpy as np
import pytest
from naive_contour import naive_evolution

from feda3i.noise import ContourEvolution, NoiseWarning
from noise_shapes import blobs, disc

pytestmark = pytest.mark.filterwarnings("ignore::feda3i.noise.model.NoiseWarning")


def faithful(mu: float, sigma: float, **options: object) -> ContourEvolution:
    return ContourEvolution(mu, sigma, mode="faithful", **options)


@pytest.mark.parametrize("block", range(8))
def test_same_bits_as_the_oracle(block: int) -> None:
    """25 random masks a block, 200 in all, with the same generator on both sides."""
    moved = 0
    for seed in range(25 * block, 25 * block + 25):
        draw = np.random.default_rng([seed, 7])
        mask = blobs(draw)
        mu, sigma = float(draw.uniform(-12, 12)), float(draw.uniform(0.5, 6))
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        noisy = faithful(mu, sigma, retries=5)(mask, ours)
        np.testing.assert_array_equal(
            noisy, naive_evolution(mask, mu, sigma, theirs, retries=5), err_msg=f"seed {seed}"
        )
        # The generators are at the same place too: neither drew more than the other.
        assert ours.bit_generator.state == theirs.bit_generator.state
        moved += int((noisy != mask).any())
    assert moved >= 20


# Measured on the published code: area ratio of discs in 256 x 256, C(8, ~0), C(-8, ~0), C(-15, ~0).
CONSTANT = {70: (1.24, 0.78, 0.62), 40: (1.44, 0.64, 0.39), 20: (1.97, 0.36, 0.07)}
# The same with spread, C(8, 5), C(-8, 5), C(20, 10), C(-20, 10); means of 20 draws there.
SPREAD = {70: (1.25, 0.79, 1.67, 0.52), 40: (1.45, 0.65, 2.28, 0.28)}


def mean_ratio(model: ContourEvolution, radius: int, draws: int) -> float:
    clean = disc(radius)
    rng = np.random.default_rng(radius)
    return float(np.mean([model(clean, rng).sum() for _ in range(draws)]) / clean.sum())


@pytest.mark.parametrize("radius", CONSTANT)
def test_area_ratios_without_spread(radius: int) -> None:
    for mu, expected in zip((8, -8, -15), CONSTANT[radius], strict=True):
        found = mean_ratio(faithful(mu, 1e-3), radius, 3)
        assert found == pytest.approx(expected, abs=0.03)
        if abs(mu) <= 0.75 * radius:
            assert found == pytest.approx(((radius + mu) / radius) ** 2, abs=0.015)


@pytest.mark.parametrize("radius", SPREAD)
def test_area_ratios_with_spread(radius: int) -> None:
    models = (faithful(8, 5), faithful(-8, 5), faithful(20, 10), faithful(-20, 10))
    for model, expected in zip(models, SPREAD[radius], strict=True):
        assert mean_ratio(model, radius, 150) == pytest.approx(expected, abs=0.03)


def test_an_object_shrunk_past_its_core_turns_inside_out() -> None:
    """The artefact that the robust mode does not have."""
    assert mean_ratio(faithful(-8, 0), 10, 1) < mean_ratio(faithful(-15, 0), 10, 1)


def test_the_tail_of_an_awkward_contour_oscillates_and_redraws_end() -> None:
    square = np.zeros((40, 40), np.uint8)
    square[10:26, 10:25] = 1
    square[26, 10] = 1  # a contour of 59 pixels: the last 30 lie beyond the drawn values
    found = faithful(5, 2, retries=50).evolve(square, np.random.default_rng(0)).parts[0]
    assert len(found.contour) == 59
    assert found.tries == 50
    assert (np.abs(found.bias) == 30).mean() > 0.2


def test_a_contour_shorter_than_the_points_is_lost_and_says_so() -> None:
    with pytest.warns(NoiseWarning, match="lost the object"):
        noisy = faithful(2, 1)(disc(3, 32), np.random.default_rng(0))
    assert not noisy.any()


def test_small_components_and_holes_vanish() -> None:
    mask = disc(30, 128)
    mask[64, 64] = 0
    mask[5:8, 5:9] = 1  # 12 pixels
    noisy = faithful(0, 0)(mask, np.random.default_rng(0))
    # With bias 0 the component is returned as it is, hole included; the small one is dropped.
    assert not noisy[:20, :20].any()
    grown = faithful(2, 0)(mask, np.random.default_rng(0))
    assert grown[64, 64] == 1


def test_columns_are_limited_by_columns() -> None:
    wide = np.zeros((60, 200), np.uint8)
    wide[15:45, 120:170] = 1  # columns beyond the number of rows
    noisy = faithful(4, 0)(wide, np.random.default_rng(0))
    assert noisy.sum() == pytest.approx(38 * 58, rel=0.04)
    tall = faithful(4, 0)(np.ascontiguousarray(wide.T), np.random.default_rng(0))
    assert tall.sum() == pytest.approx(38 * 58, rel=0.04)


def test_record() -> None:
    found = faithful(6, 3).evolve(disc(40), np.random.default_rng(1))
    (part,) = found.parts
    assert part.contour.shape == part.moved.shape == (224, 2)
    assert part.bias.shape == part.dropped.shape == (224,)
    assert part.fate == "moved"
    kept = part.moved[~part.dropped]
    assert found.mask[kept[:, 0], kept[:, 1]].all()
