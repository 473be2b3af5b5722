"""Moved contours: the right size, no object lost, given masks untouched."""

import numpy as np
import pytest
from drawn import distance
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from feda3i.quality import redraw, shift_mask


@pytest.mark.parametrize(("by", "radius"), [(-10, 20), (-2.5, 27.5), (0, 30), (4, 34), (-99, 12)])
def test_a_disc_becomes_a_disc_and_keeps_the_inner_part(by, radius):
    found = shift_mask(distance((128, 128)) < 30, by)
    assert found.sum() == pytest.approx(np.pi * radius**2, rel=0.1 if by < -30 else 0.04)


def test_a_small_object_beside_a_large_one_survives():
    mask = (distance((128, 128), (50, 50)) < 30) | (distance((128, 128), (110, 110)) < 2)
    left = shift_mask(mask, -8.0)
    assert left[110, 110]
    assert left.sum() < mask.sum()
    assert not (left & ~mask).any()
    for fill, by in ((0, 3.0), (1, -3.0), (0, -3.0), (1, 3.0)):  # empty and full masks stay
        assert (shift_mask(np.full((9, 9), fill), by) == fill).all()


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=3, max_side=8)),
    st.lists(st.floats(-50, 50), min_size=1, max_size=3),
)
def test_nothing_is_ever_emptied_or_changed_in_place(values, by):
    mask = (values % (len(by) + 1)).astype(np.uint8)
    before = mask.copy()
    moved = redraw(mask, by)
    assert (mask == before).all()
    assert moved.dtype == mask.dtype
    assert set(np.unique(mask[mask > 0])) <= set(np.unique(moved))
    assert set(np.unique(moved)) <= {0, *np.unique(mask)}


def test_classes_move_one_by_one_and_the_higher_one_lies_on_top_but_buries_none():
    mask = np.zeros((1, 12), np.uint8)
    mask[0, 2:5], mask[0, 6:9] = 1, 2
    assert redraw(mask, [2.0, 1.0]).tolist() == [[1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0]]
    assert redraw(mask, [0.0, 0.0]).tolist() == mask.tolist()
    buried = np.array([[0, 1, 2, 2, 2, 2, 0]], np.uint8)  # such a case stays as it is
    assert redraw(buried, [0.0, 3.0]).tolist() == buried.tolist()
