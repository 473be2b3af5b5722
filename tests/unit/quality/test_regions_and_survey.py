"""Bands along a contour and the losses in them, against scipy and torch."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage
from torch.nn import functional as F

from feda3i.errors import DataError
from feda3i.quality import (
    SiteSurvey,
    boundary_regions,
    find_regions,
    learning_difficulty,
    survey_site,
)

YY, XX = np.mgrid[:256, :256]


def disc(radius, centre=(128, 128)):
    return np.hypot(YY - centre[0], XX - centre[1]) <= radius


def plain_regions(mask):
    """Apply the definition to the whole frame."""
    if not mask.any() or mask.all():
        return np.zeros_like(mask), np.zeros_like(mask)
    inside = ndimage.distance_transform_edt(mask)
    outside = ndimage.distance_transform_edt(~mask)
    reach = min(inside.max(), outside.max())
    return mask & (inside <= reach), ~mask & (outside <= reach)


@settings(max_examples=200, deadline=None)
@given(
    mask=hnp.arrays(
        bool,
        st.one_of(
            st.tuples(st.integers(1, 20), st.integers(1, 20)),
            st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 7)),
        ),
        elements=st.sampled_from([True, True, True, False]),
    )
)
def test_windowed_regions_are_those_of_the_whole_frame(mask):
    for found, expected in zip(boundary_regions(mask), plain_regions(mask), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(96, 130), (20, 24, 22)])
def test_smooth_masks_with_holes_and_parts_that_touch_the_frame(shape):
    random = np.random.default_rng(0)
    for share in (0.02, 0.2, 0.5, 0.8, 0.98):
        field = ndimage.gaussian_filter(random.normal(size=shape), 4)
        mask = field > np.quantile(field, share)
        for found, expected in zip(boundary_regions(mask), plain_regions(mask), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_disc_has_a_ring_of_its_own_width():
    mask = disc(10)
    inner, outer = boundary_regions(mask)
    reach = ndimage.distance_transform_edt(mask).max()
    np.testing.assert_array_equal(inner, mask)
    outside = ndimage.distance_transform_edt(~mask)
    np.testing.assert_array_equal(outer, (outside > 0) & (outside <= reach))
    assert ndimage.distance_transform_edt(mask)[inner].max() == reach


@pytest.mark.parametrize("mask", [np.zeros((9, 7), bool), np.ones((9, 7), bool)])
def test_masks_without_contour_have_no_bands(mask):
    assert find_regions(mask) is None
    assert not any(band.any() for band in boundary_regions(mask))
    assert all(math.isnan(one) for one in learning_difficulty(np.zeros(mask.shape), mask))


@pytest.mark.parametrize("as_tensor", [False, True])
def test_difficulty_is_the_cross_entropy_of_the_bands(as_tensor):
    random = np.random.default_rng(1)
    mask = disc(30, (100, 140)) | disc(12, (20, 30))
    logits = random.normal(0, 6, mask.shape).astype(np.float32)
    loss = F.binary_cross_entropy_with_logits(
        torch.from_numpy(logits).double(), torch.from_numpy(mask).double(), reduction="none"
    ).numpy()
    inner, outer = plain_regions(mask)
    expected = loss[inner].mean(), loss[outer].mean()
    given_logits = torch.from_numpy(logits).requires_grad_() if as_tensor else logits
    assert learning_difficulty(given_logits, mask) == pytest.approx(expected, rel=1e-6)


def test_inverting_mask_and_logits_swaps_the_two():
    logits = np.random.default_rng(2).normal(size=(256, 256))
    mask = disc(40, (60, 100))
    inner, outer = learning_difficulty(logits, mask)
    assert learning_difficulty(-logits, ~mask) == pytest.approx((outer, inner))


def test_masks_drawn_too_large_are_hard_inside_too_small_outside():
    clean = disc(40)
    logits = np.where(clean, 20.0, -20.0)
    assert max(learning_difficulty(logits, clean)) < 1e-6
    inner, outer = learning_difficulty(logits, disc(46))
    assert inner > 1 > outer
    inner, outer = learning_difficulty(logits, disc(34))
    assert outer > 1 > inner


@pytest.mark.parametrize("value", [1e4, -1e4, 88.8, 0.0])
def test_losses_are_finite_for_extreme_logits(value):
    logits = np.full((256, 256), value, np.float32)
    inner, outer = learning_difficulty(logits, disc(30))
    assert (inner, outer) == pytest.approx((np.logaddexp(0, -value), np.logaddexp(0, value)))


def two_class_site(cases=5):
    random = np.random.default_rng(3)
    masks = np.zeros((cases, 40, 44), np.uint8)
    for i in range(cases):
        masks[i, 5 : 15 + i, 5:20] = 1
        if i != 2:
            masks[i, 22:30, 10 : 20 + i] = 2
    logits = random.normal(0, 2, (cases, 2, 40, 44)).astype(np.float32)
    return logits, masks


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_survey_is_the_mean_over_usable_cases_for_any_batch_size(batch):
    logits, masks = two_class_site()
    pairs = ((logits[i : i + batch], masks[i : i + batch]) for i in range(0, len(masks), batch))
    survey = survey_site(pairs, classes=2)
    assert survey.cases.tolist() == [5, 4]
    for k in range(2):
        single = [
            learning_difficulty(logits[i, k], masks[i] == k + 1)
            for i in range(5)
            if (masks[i] == k + 1).any()
        ]
        np.testing.assert_allclose(survey.q[k], np.mean(single, axis=0))


def test_survey_takes_tensors_of_any_precision():
    logits, masks = two_class_site()
    plain = survey_site([(logits, masks)], classes=2)
    tensors = survey_site([(torch.from_numpy(logits), torch.from_numpy(masks))], classes=2)
    np.testing.assert_array_equal(tensors.q, plain.q)
    half = survey_site([(torch.from_numpy(logits).bfloat16(), masks)], classes=2)
    np.testing.assert_allclose(half.q, plain.q, rtol=1e-2)


def test_cached_regions_give_the_same_bits_and_are_small():
    logits, masks = two_class_site()
    cache = {}
    first = survey_site([(logits, masks)], classes=2, cache=cache)
    assert set(cache) == {(i, k) for i in range(5) for k in range(2)}
    assert cache[2, 1] is None
    # the second time only the cache is read: other masks change nothing
    second = survey_site([(logits, np.zeros_like(masks))], classes=2, cache=cache)
    assert json.dumps(first.to_dict()) == json.dumps(second.to_dict())
    assert find_regions(disc(40)).bits.nbytes <= 256 * 256 / 4
    with pytest.raises(DataError, match="cache made for other masks"):
        survey_site([(logits[:, :, 1:], masks[:, 1:])], classes=2, cache=cache)


def test_sites_without_usable_cases_are_undefined_not_wrong():
    masks = np.stack([np.zeros((20, 20)), np.ones((20, 20)), np.pad(np.ones((8, 8)), 6)])
    logits = np.zeros((3, 1, 20, 20))
    survey = survey_site([(logits[:2], masks[:2])])
    assert survey.cases.tolist() == [0]
    assert np.isnan(survey.q).all()
    assert survey_site([(logits, masks)]).q == pytest.approx(math.log(2))
    assert np.isnan(survey_site([(logits, masks)], fewest_cases=2).q).all()
    assert survey_site([], classes=3).cases.tolist() == [0, 0, 0]


def test_survey_survives_json():
    logits, masks = two_class_site()
    masks[masks == 2] = 0
    survey = survey_site([(logits, masks)], classes=2)
    again = SiteSurvey.from_dict(json.loads(json.dumps(survey.to_dict(), allow_nan=False)))
    np.testing.assert_array_equal(again.q, survey.q)
    assert again.cases.tolist() == [5, 0]


def test_wrong_shapes_are_explained():
    logits, masks = two_class_site()
    with pytest.raises(DataError, match=r"expected logits \(case, class, \*space\) \(5, 1, 40"):
        survey_site([(logits, masks)], classes=1)
    with pytest.raises(DataError, match="of one shape"):
        learning_difficulty(np.zeros((3, 3)), np.zeros((3, 4)))
