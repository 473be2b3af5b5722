"""Objects left out, made up and given another class."""

import numpy as np
import pytest

from feda3i.errors import DataError, RecipeError
from feda3i.noise.object_noise import Addition, Omission, Swap, objects_of
from feda3i.seeding import rng


def scene(classes=1):
    """Return six squares of 8, 9, ... pixels a side, of classes in turn."""
    mask = np.zeros((96, 96), np.uint8)
    for k in range(6):
        row, col = 4 + 32 * (k // 3), 4 + 30 * (k % 3)
        mask[row : row + 8 + k, col : col + 8 + k] = 1 + k % classes
    return mask


def count(mask):
    return len(list(objects_of(mask)))


def test_a_rate_of_nothing_changes_nothing_and_a_larger_one_takes_more():
    for model in (Omission(0.0, 0.0), Addition(0.0), Swap(0.0)):
        assert np.array_equal(model(scene(2), rng(0, "a")), scene(2))
    mask = scene()
    _, largest = list(objects_of(mask))[-1]
    for seed in range(20):
        some = Omission(0.3, 0.1)(mask, rng(seed, "o"))
        more = Omission(0.8, 0.4)(mask, rng(seed, "o"))
        assert (some <= mask).all()
        assert (more <= some)[~largest].all()
    kept = Omission(1.0, 0.0)(mask, rng(0, "o"))
    assert [int(region.sum()) for _, region in objects_of(kept)] == [13 * 13]
    assert not Omission(0.0, 1.0)(scene(), rng(0, "o")).any()


def test_rates_are_those_that_were_asked_for():
    draws = 400
    left = [count(Omission(0.4, 0.0)(scene(), rng(k, "r"))) for k in range(draws)]
    share, error = 1 - sum(left) / (6 * draws), (0.4 * 0.6 / (6 * draws)) ** 0.5
    assert abs(share - 0.4) < 4 * error
    emptied = [not Omission(0.0, 0.1)(scene(), rng(k, "c")).any() for k in range(draws)]
    assert abs(np.mean(emptied) - 0.1) < 4 * (0.09 / draws) ** 0.5


def test_addition_contains_what_is_there_and_keeps_its_distance():
    mask = np.zeros((96, 96), np.uint8)
    mask[10:20, 10:20] = 1
    noisy = Addition(1.0, most=1)(mask, rng(0, "a"))
    assert (noisy >= mask).all()
    assert count(noisy) == 2
    assert not Addition(1.0)(np.zeros((96, 96), np.uint8), rng(0, "a")).any(), "nothing to copy"
    full = np.ones((96, 96), np.uint8)
    assert np.array_equal(Addition(1.0)(full, rng(0, "a")), full), "nothing fits"


def test_swap_keeps_the_foreground_and_changes_every_object_at_rate_one():
    mask = scene(3)
    noisy = Swap(1.0, classes=3)(mask, rng(0, "s"))
    assert np.array_equal(noisy > 0, mask > 0)
    assert (noisy[mask > 0] != mask[mask > 0]).all()
    assert set(np.unique(noisy)) <= {0, 1, 2, 3}
    with pytest.raises(RecipeError, match="classes: input should be greater than or equal to 2"):
        Swap(classes=1)
    with pytest.raises(DataError, match="expected classes up to 2, found 3"):
        Swap()(scene(3), rng(0, "s"))
