"""The strength that gives a wanted Dice."""

from __future__ import annotations

import numpy as np
import pytest

from feda3i.errors import DataError, RecipeError
from feda3i.noise import ClassConditional, ContourEvolution, calibrate
from feda3i.noise.calibrate import mean_dice
from noise_shapes import disc

MASKS = [disc(r, 128) for r in (20, 25, 30, 35)]


@pytest.mark.parametrize("target", [0.9, 0.75])
@pytest.mark.parametrize("sign", [1, -1])
def test_contour_noise_reaches_the_target(target: float, sign: int) -> None:
    found = calibrate(
        lambda s: ContourEvolution(sign * s, s / 2, clip=60),
        MASKS,
        target,
        np.random.default_rng(0),
        limit=60,
        tolerance=0.005,
    )
    rng = np.random.default_rng(1)
    fresh = np.mean([mean_dice(m, found.model(m, rng)) for m in MASKS * 15])
    assert fresh == pytest.approx(target, abs=0.03)
    assert found.dice == pytest.approx(target, abs=0.005)


def test_flips_have_a_known_strength() -> None:
    """With r of the foreground flipped off only, Dice is 2 (1 - r) / (2 - r)."""
    found = calibrate(
        lambda s: ClassConditional(0.0, s), MASKS, 0.8, np.random.default_rng(0), limit=1.0
    )
    assert found.strength == pytest.approx(1 / 3, abs=0.02)


def test_out_of_reach_is_said() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(RecipeError, match="out of reach"):
        calibrate(lambda s: ClassConditional(0.0, 0.1 * s), MASKS, 0.5, rng, limit=1.0)
    with pytest.raises(DataError, match="with foreground"):
        calibrate(lambda s: ClassConditional(s, s), [np.zeros((4, 4), int)], 0.5, rng, limit=1.0)
    with pytest.raises(RecipeError, match="target_dice"):
        calibrate(lambda s: ClassConditional(s, s), MASKS, 1.5, rng)


def test_dice_over_classes() -> None:
    clean, noisy = np.array([[1, 1, 2, 2, 0]]), np.array([[1, 0, 2, 2, 0]])
    assert mean_dice(clean, noisy) == pytest.approx((2 / 3 + 1) / 2)
    assert mean_dice(clean * 0, noisy * 0) == 1
    assert mean_dice(np.array([[255, 0]]), np.array([[255, 255]])) == pytest.approx(2 / 3)
