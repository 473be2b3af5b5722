import hashlib

import numpy as np
import pytest

from feda3i.core.cases import Cases
from feda3i.core.ragged import Ragged, hash_into, zeros_like
from feda3i.errors import DataError


def test_cases_come_out_as_they_went_in_and_copies_are_their_own():
    rng, shapes = np.random.default_rng(0), ((2, 3, 4), (1, 5, 2), (3, 1, 1))
    made = [rng.integers(0, 9, shape).astype(np.int16) for shape in shapes]
    ragged = Ragged.of(made)
    assert len(ragged) == 3
    for one, expected in zip(ragged, made, strict=True):
        np.testing.assert_array_equal(one, expected)
    for part, where in ((ragged[1:], [1, 2]), (ragged[np.array([2, 0])], [2, 0])):
        assert part.flat is ragged.flat  # shared, not copied
        for one, k in zip(part, where, strict=True):
            np.testing.assert_array_equal(one, made[k])
    copy = ragged[1:].copy()
    copy[0] = np.zeros((1, 5, 2), np.int16)
    assert not copy[0].any()
    assert ragged[1].any()
    blank = zeros_like(ragged)
    assert [one.shape for one in blank] == [one.shape for one in ragged]
    assert blank.dtype == np.uint8


def test_hash_knows_shapes():
    one, other = hashlib.sha256(), hashlib.sha256()
    hash_into(one, Ragged(np.arange(12), [[3, 2], [6, 1]]))
    hash_into(other, Ragged(np.arange(12), [[2, 3], [6, 1]]))
    assert one.digest() != other.digest()


def ragged_cases(shapes=((4, 5), (6, 3)), dtype=np.float32):
    images = Ragged.of([np.ones((*shape, 1), dtype) for shape in shapes])
    masks = Ragged.of([np.ones(shape, np.uint8) for shape in shapes])
    return Cases(tuple(f"c{k}" for k in range(len(shapes))), images, masks)


def test_cases_of_several_sizes_must_fit():
    cases = ragged_cases()
    assert (cases.channels, cases.dimensions, cases.usual_shape) == (1, 2, (5, 4))
    with pytest.raises(DataError, match=r"4 x 3 to 6 x 5.*train\.patch"):
        _ = cases.shape
    taken = cases.take(np.array([1]))
    assert taken.masks[0].shape == (6, 3)
    assert cases.take(slice(0, 1)).digest() != taken.digest()
    masks = Ragged.of([np.ones((4, 5), np.uint8), np.ones((6, 4), np.uint8)])
    with pytest.raises(DataError, match="expected images"):
        Cases(("a", "b"), ragged_cases().images, masks)
    with pytest.raises(DataError, match="uint8, int16, float32"):
        ragged_cases(dtype=np.float64)
