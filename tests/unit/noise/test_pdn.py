"""The two conditions of pixel-dependent noise: what each model meets, on a disc."""

from __future__ import annotations

import numpy as np
import pytest

from feda3i.errors import DataError
from feda3i.noise import (
    ClassConditional,
    ContourEvolution,
    MarkovNoise,
    MorphologicalNoise,
    SignedDistanceEvolution,
    pixel_dependence,
)
from noise_shapes import disc

DISC = disc(40, 140)


@pytest.mark.parametrize(
    ("model", "first", "second"),
    [
        (ContourEvolution(0, 6, mode="faithful", start="fixed"), True, True),
        (ContourEvolution(0, 6, mode="faithful"), True, False),
        (ContourEvolution(0, 6, start="fixed"), True, True),
        (ContourEvolution(0, 6), True, False),
        (SignedDistanceEvolution(0, 6), True, False),
        (ClassConditional(), False, False),
        (MorphologicalNoise(), True, False),
        (MarkovNoise(30, 0.5, 0.3, 0.0), True, False),
    ],
)
def test_conditions_by_model(model: object, first: bool, second: bool) -> None:
    found = pixel_dependence(model, DISC, 200, np.random.default_rng(3), rotations=199)
    assert found.meets() == (first, second)
    if second and model.mode == "faithful":  # on the published code: .14, < .001, .16 to .37
        assert found.near == pytest.approx(0.14, abs=0.02)
        assert found.far < 0.001
        assert np.ptp(found.sectors) > 0.12


def test_a_model_with_known_answers() -> None:
    """Flip the shell's lower half only: near flips are known, the sectors differ by one."""
    outside = np.zeros_like(DISC)
    outside[70:] = 1

    def model(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        grown = MorphologicalNoise(p_dilate=1, low=5, high=5)(mask, rng)
        return mask | (grown & outside) if rng.random() < 0.5 else mask

    found = pixel_dependence(model, DISC, 200, np.random.default_rng(0), rotations=199)
    assert found.meets() == (True, True)
    assert found.sectors.min() == 0
    assert found.sectors.max() == pytest.approx(0.5, abs=0.11)
    assert found.far == 0


def test_objects_without_far_pixels_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="farther than 10"):
        pixel_dependence(ClassConditional(), disc(5, 16), 10, rng)
    with pytest.raises(DataError, match="farther than 10"):
        pixel_dependence(ClassConditional(), np.zeros((64, 64), bool), 10, rng)
    with pytest.raises(DataError, match="all 16 sectors"):
        pixel_dependence(ClassConditional(), disc(30, 128, (0, 64)), 10, rng)
