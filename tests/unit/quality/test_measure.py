"""Offsets of sites: right within their errors, calibrated by trusted masks, refused in doubt."""

import math
import warnings

import numpy as np
import pytest
from drawn import distance, picture, site

from feda3i.geometry import signed_distance
from feda3i.quality import (
    agreement,
    calibrate_offset,
    edge_offsets,
    measure_edges,
    measure_model,
    redraw,
    site_effects,
)
from feda3i.quality.measure import Offset


@pytest.mark.parametrize("offset", [-8, 0, 6])
def test_a_site_is_measured_within_its_error(offset):
    found = measure_edges(*site(offset, seed=offset + 20))
    assert found.is_known
    assert found.cases == 8
    assert 0.05 < found.error < 1.5
    assert abs(found.offset - offset) < 4 * found.error


def test_errors_are_as_large_as_they_say():
    """Two errors hold the truth at most of 40 sites, and are not ten times too wide."""
    found = [measure_edges(*site(3, 8, 64, radius=14, seed=seed)) for seed in range(40)]
    away = np.array([abs(one.offset - 3) / one.error for one in found])
    assert (away < 2).mean() >= 0.8
    assert (away > 0.2).mean() >= 0.5


def test_the_order_of_cases_does_not_matter():
    images, masks = site(4)
    one, two = measure_edges(images, masks), measure_edges(images[::-1], masks[::-1])
    assert one.offset == pytest.approx(two.offset)
    assert one.error == pytest.approx(two.error, rel=0.5)  # other cases are drawn twice


def test_one_odd_case_does_not_decide():
    images, masks = site(4, number=12)
    odd = masks.copy()
    odd[0] = distance(masks.shape[1:], (20, 20)) < 12  # drawn somewhere else altogether
    assert measure_edges(images, odd).offset == pytest.approx(4, abs=1)


def test_four_cases_are_too_few():
    found = measure_edges(*site(5, number=4))
    assert not found.is_known
    assert math.isnan(found.offset)
    assert "4 cases with a contour, 8 are needed" in found.reason
    assert measure_edges(*site(5, number=4), fewest=4).is_known


def test_empty_masks_are_not_cases():
    images, masks = site(5, number=9)
    masks[:2] = False
    assert measure_edges(images, masks).cases == 7
    assert not measure_edges(images, masks).is_known


def nested(away, radius, *, seed):
    """A cup in its disc: two borders, 12 pixels apart, of equal contrast."""
    disc = picture(away, radius + 12, seed=seed, inside=110, outside=60).astype(int)
    cup = picture(away, radius, seed=seed + 500, inside=60, outside=0).astype(int)
    return np.clip(disc + cup, 0, 255).astype(np.uint8)


def test_two_nested_borders_are_not_told_apart():
    found = measure_edges(*site(0, paint=nested, radius=22))
    assert not found.is_known
    assert "second border" in found.reason


def test_a_diffuse_border_has_no_place():
    found = measure_edges(*site(0, blur=14.0, noise=30.0, radius=30))
    assert not found.is_known
    assert "diffuse" in found.reason


@pytest.mark.parametrize("noise", [0.0, 25.0])
def test_images_without_a_border_tell_nothing(noise):
    found = measure_edges(*site(0, inside=120, outside=120, noise=noise))
    assert not found.is_known
    assert "no border" in found.reason


def test_offsets_of_cases_come_in_their_order():
    images, masks = site(0, number=3, wobble=0)
    masks[1] = False
    found = edge_offsets(images, masks)
    assert np.isnan(found).tolist() == [False, True, False]
    assert np.abs(found[[0, 2]]).max() < 1


def test_trusted_masks_take_out_where_annotators_draw_by_habit():
    """Everybody draws 3 pixels outside the edge; this site 5 more."""
    measured, trusted = measure_edges(*site(8, seed=1)), measure_edges(*site(3, 32, seed=2))
    found = calibrate_offset(measured, trusted, side=128)
    assert found.offset == pytest.approx(5, abs=1)
    assert found.error == pytest.approx(math.hypot(measured.error, trusted.error))
    assert found.cases == 8


def test_trusted_masks_far_from_the_edge_mean_another_border():
    found = calibrate_offset(Offset(6.0, 0.5, 16), Offset(-5.0, 0.3, 32), side=128)
    assert not found.is_known
    assert "-5.0 pixels from the border" in found.reason
    assert calibrate_offset(Offset(6.0, 0.5, 16), Offset(-5.0, 0.3, 32), side=256).is_known


def test_what_cannot_be_told_stays_so():
    unknown = Offset.unknown(3, "too few")
    assert calibrate_offset(unknown, Offset(0.0, 0.1, 32), 256) is unknown
    assert "too few" in calibrate_offset(Offset(1.0, 0.1, 9), unknown, 256).reason
    with pytest.raises(ValueError, match="finite"):
        Offset(math.nan, 0.1, 9)


def test_a_model_measures_the_same_offset_with_its_own_constant():
    _, masks = site(0, wobble=0)
    grown = np.stack([signed_distance(mask) <= 3 for mask in masks])
    found, offsets = measure_model(grown, masks)
    assert found.offset == pytest.approx(3, abs=0.3)
    assert offsets.shape == (8,)
    few, _ = measure_model(grown[:3], masks[:3])
    assert "3 of 3 cases" in few.reason


def test_estimators_agree_about_what_both_can_tell():
    one = [Offset(value, 0.1, 9) for value in (1.0, 2.0, 4.0, 3.0)] + [Offset.unknown(2, "few")]
    two = [Offset(value, 0.1, 9) for value in (5.0, 6.0, 8.0, 7.0, -9.0)]
    assert agreement(one, two) == pytest.approx(1)
    assert math.isnan(agreement(one[:3], two[:3]))
    assert math.isnan(agreement(one[:4], [two[0]] * 4))


def _frame(images, masks):
    return images[:, 40:], masks[:, 40:]  # the object touches the frame


BAD = {
    "grey as colour": lambda i, m: (np.repeat(i[..., None], 3, axis=-1), m),
    "constant": lambda i, m: (np.full_like(i, 90), m),
    "touching the frame": _frame,
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
