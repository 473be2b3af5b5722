"""Offsets of sites by edges and by contours: right within their errors, refused in doubt; moves."""

import math
import warnings

import numpy as np
import pytest
from drawn import distance, picture, site
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from feda3i.quality import (
    Offset,
    contour_offset,
    measure_edges,
    redraw,
    shift_mask,
    site_effects,
    site_offset,
)


@pytest.mark.parametrize("offset", [-8, 0, 6])
def test_a_site_is_measured_within_its_error(offset):
    found = measure_edges(*site(offset, seed=offset + 20))
    assert (found.is_known, found.cases) == (True, 8)
    assert 0.05 < found.error < 1.5
    assert abs(found.offset - offset) < 4 * found.error


def test_errors_are_as_large_as_they_say():
    """Two errors hold the truth at most of 40 sites, and are not ten times too wide."""
    found = [measure_edges(*site(3, 8, 64, radius=14, seed=seed)) for seed in range(40)]
    away = np.array([abs(one.offset - 3) / one.error for one in found])
    assert (away < 2).mean() >= 0.8
    assert (away > 0.2).mean() >= 0.5


def test_neither_the_order_of_cases_nor_one_odd_case_decides():
    images, masks = site(4, number=12)
    one, two = measure_edges(images, masks), measure_edges(images[::-1], masks[::-1])
    assert one.offset == pytest.approx(two.offset)
    assert one.error == pytest.approx(two.error, rel=0.5)  # other cases are drawn twice
    masks[0] = distance(masks.shape[1:], (20, 20)) < 12  # drawn somewhere else altogether
    assert measure_edges(images, masks).offset == pytest.approx(4, abs=1)


def test_few_cases_and_empty_masks_tell_nothing():
    images, masks = site(5, number=9)
    masks[:2] = False
    found = measure_edges(images, masks)
    assert (found.is_known, found.cases) == (False, 7)
    assert math.isnan(found.offset)
    assert "7 cases with a contour, 8 are needed" in found.reason
    with pytest.raises(ValueError, match="finite"):
        Offset(math.nan, 0.1, 9)


def nested(away, radius, *, seed):
    """A cup in its disc: two borders, 12 pixels apart, of equal contrast."""
    disc = picture(away, radius + 12, seed=seed, inside=110, outside=60).astype(int)
    cup = picture(away, radius, seed=seed + 500, inside=60, outside=0).astype(int)
    return np.clip(disc + cup, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"paint": nested, "radius": 22}, "second border"),
        ({"blur": 14.0, "noise": 30.0, "radius": 30}, "diffuse"),
        ({"inside": 120, "outside": 120, "noise": 0.0}, "no border"),
        ({"inside": 120, "outside": 120, "noise": 25.0}, "no border"),
    ],
)
def test_images_without_one_clear_border_tell_nothing(options, why):
    found = measure_edges(*site(0, **options))
    assert not found.is_known
    assert why in found.reason


BAD = {
    "grey as colour": lambda i, m: (np.repeat(i[..., None], 3, axis=-1), m),
    "constant": lambda i, m: (np.full_like(i, 90), m),
    "touching the frame": lambda i, m: (i[:, 40:], m[:, 40:]),
    "filling the frame": lambda i, m: (i, ~np.zeros_like(m)),
    "filling most of it": lambda i, m: (i[:, 34:94, 34:94], m[:, 34:94, 34:94]),
    "tiny": lambda i, m: (i[:, ::8, ::8], m[:, ::8, ::8]),
    "several objects": lambda i, m: (np.concatenate([i, i], axis=2), np.concatenate([m, m], 2)),
    "empty": lambda i, m: (i, np.zeros_like(m)),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_answered_and_no_mask_is_emptied(kind):
    images, masks = BAD[kind](*site(6, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = measure_edges(images, masks)
        (by,) = site_effects([found], Offset(0.0, 0.1, 32)).moves.tolist()
        moved = [redraw(mask.astype(np.uint8), [by]) for mask in masks]
    assert found.is_known == bool(np.isfinite([found.offset, found.error]).all())
    assert bool(found.reason) != found.is_known
    assert np.isfinite(by)
    assert [one.any() for one in moved] == [mask.any() for mask in masks]
    if kind in ("grey as colour", "touching the frame", "several objects"):
        assert by == pytest.approx(-6, abs=1.5)
    if kind in ("constant", "filling the frame", "empty"):
        assert by == 0


# -- from a model's contours ----------------------------------------------------------------------


def test_a_border_at_the_frame_is_no_border_and_cropping_changes_nothing():
    half, more = (np.arange(32) < width * np.ones((32, 1)) for width in (16, 19))
    assert contour_offset(more, half) == 3
    assert contour_offset(half, more) == -3
    big, small = (distance((200, 200), (60 + k, 60 + k)) <= 9 - 1.5 * k for k in (0, 2))
    cropped = contour_offset(big[40:80, 40:80], small[40:80, 40:80])
    assert contour_offset(big, small) == pytest.approx(cropped, abs=1e-6)
    for empty in (np.zeros((8, 8)), np.ones((8, 8))):
        assert math.isnan(contour_offset(np.eye(8), empty))
        assert math.isnan(contour_offset(empty, np.eye(8)))


def test_a_missed_object_does_not_move_a_sites_offset_and_its_error_is_that_of_a_median():
    assert site_offset([2.0, 2.1, 1.9, 2.0, 2.0, -40.0])[0] == pytest.approx(2.0)
    assert np.isnan(site_offset([2.0])).all()  # one case has no spread
    assert np.isnan(site_offset([2.0, np.nan, np.nan, np.nan, 2.0])).all()  # the model sees too few
    draw = np.random.default_rng(0)
    medians = [np.median(draw.normal(0, 3, 25)) for _ in range(4000)]
    errors = [site_offset(draw.normal(0, 3, 25))[1] for _ in range(400)]
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.05)


# -- moved contours: the right size, no object lost, given masks untouched ------------------------


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
