"""One structure inside another: no background opens between them when both shrink."""

from functools import partial

import numpy as np
import pytest

from feda3i.noise import ContourEvolution, SignedDistanceEvolution
from noise_shapes import disc


def nested(inner=14, outer=40, size=128):
    mask = disc(outer, size).astype(np.uint8)
    mask[disc(inner, size) != 0] = 2
    return mask


@pytest.mark.parametrize(
    "kind",
    [ContourEvolution, partial(ContourEvolution, mode="faithful"), SignedDistanceEvolution],
)
def test_no_ring_of_background_between_shrunk_classes(kind):
    noisy = kind(-5.0, 2.0)(nested(), np.random.default_rng(0))
    assert (noisy == 2).sum() < (nested() == 2).sum()
    assert (noisy > 0).sum() < (nested() > 0).sum()
    assert (noisy[disc(25, 128) != 0] > 0).all()


def test_holes_that_hold_background_stay_holes():
    mask = nested()
    mask[disc(5, 128) != 0] = 0  # background within the inner class
    noisy = ContourEvolution(-2.0, 0.0)(mask, np.random.default_rng(0))
    assert noisy[64, 64] == 0
    ring = disc(40, 128).astype(np.uint8)
    ring[disc(20, 128) != 0] = 0
    ring[disc(8, 128) != 0] = 2  # an island in a lake
    noisy = ContourEvolution(-3.0, 0.0)(ring, np.random.default_rng(0))
    assert (noisy[64, 64 + 11 : 64 + 19] == 0).all()


def test_what_reaches_the_frame_is_not_nested_and_a_lower_class_inside_is_not_painted_over():
    mask = np.full((64, 64), 2, np.uint8)
    mask[disc(20, 64) != 0] = 1
    for model in (ContourEvolution(0.0, 0.0), SignedDistanceEvolution(0.0, 0.0)):
        np.testing.assert_array_equal(model(mask, 0), mask)
    noisy = SignedDistanceEvolution(-3.0, 0.0)(mask, 0)
    assert 0 < (noisy == 1).sum() < (mask == 1).sum()
