"""Bands along a contour and the losses in them, against scipy and torch."""

import json
import math

import numpy as np
import pytest
import torch
from drawn import distance
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage
from torch.nn import functional as F

from feda3i.errors import DataError
from feda3i.quality import SiteSurvey, boundary_regions, learning_difficulty, survey_site


def disc(radius, centre=(128, 128)):
    return distance((256, 256), centre) <= radius


def plain_regions(mask):
    """Apply the definition to the whole frame."""
    if not mask.any() or mask.all():
        return np.zeros_like(mask), np.zeros_like(mask)
    inside = ndimage.distance_transform_edt(mask)
    outside = ndimage.distance_transform_edt(~mask)
    reach = min(inside.max(), outside.max())
    return mask & (inside <= reach), ~mask & (outside <= reach)


flat = st.tuples(*[st.integers(1, 20)] * 2)
deep = st.tuples(*[st.integers(1, 7)] * 3)


@settings(max_examples=200, deadline=None)
@given(hnp.arrays(bool, flat | deep, elements=st.sampled_from([True, True, True, False])))
def test_regions_are_those_of_the_definition(mask):
    np.testing.assert_array_equal(boundary_regions(mask), plain_regions(mask))


def test_difficulty_is_the_cross_entropy_of_the_bands():
    mask = disc(30, (100, 140)) | disc(12, (20, 30))
    logits = torch.from_numpy(np.random.default_rng(1).normal(0, 6, mask.shape)).float()
    true = torch.from_numpy(mask).double()
    loss = F.binary_cross_entropy_with_logits(logits.double(), true, reduction="none").numpy()
    expected = [loss[band].mean() for band in plain_regions(mask)]
    assert learning_difficulty(logits.requires_grad_(), mask) == pytest.approx(expected, rel=1e-6)
    assert learning_difficulty(logits.detach().numpy(), mask) == pytest.approx(expected, rel=1e-6)
    swapped = learning_difficulty(-logits, ~mask)
    assert swapped == pytest.approx(expected[::-1], rel=1e-6)
    for radius, hard in ((46, 0), (34, 1)):  # drawn too large: hard inside; too small: outside
        found = learning_difficulty(np.where(disc(40), 20.0, -20.0), disc(radius))
        assert found[hard] > 1 > found[1 - hard]
    for value in (1e4, -1e4, 88.8, 0.0):  # losses are finite for extreme logits
        found = learning_difficulty(np.full(mask.shape, value, np.float32), mask)
        assert found == pytest.approx((np.logaddexp(0, -value), np.logaddexp(0, value)))


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
@pytest.mark.parametrize(
    ("given", "rtol"),
    [
        (lambda logits: logits, 1e-12),
        (torch.from_numpy, 1e-12),
        (lambda logits: torch.from_numpy(logits).bfloat16(), 1e-2),
    ],
)
def test_survey_is_the_mean_over_usable_cases_of_any_batches(given, rtol, batch):
    logits, masks = two_class_site()
    parts = [slice(i, i + batch) for i in range(0, len(masks), batch)]
    survey = survey_site(((given(logits[part]), masks[part]) for part in parts), classes=2)
    assert survey.cases.tolist() == [5, 4]
    for k in range(2):
        single = [learning_difficulty(logits[i, k], masks[i] == k + 1) for i in range(5)]
        np.testing.assert_allclose(survey.q[k], np.nanmean(single, axis=0), rtol=rtol)


def test_sites_without_usable_cases_are_undefined_not_wrong():
    masks = np.stack([np.zeros((20, 20)), np.ones((20, 20)), np.pad(np.ones((8, 8)), 6)])
    logits = np.zeros((3, 1, 20, 20))
    for mask in masks[:2]:
        assert not np.any(boundary_regions(mask))
        assert all(math.isnan(one) for one in learning_difficulty(logits[0, 0], mask))
    survey = survey_site([(logits[:2], masks[:2])])
    assert survey.cases.tolist() == [0]
    assert np.isnan(survey.q).all()
    assert survey_site([(logits, masks)]).q == pytest.approx(math.log(2))
    assert survey_site([], classes=3).cases.tolist() == [0, 0, 0]
    with pytest.raises(DataError, match=r"expected logits \(case, class, \*space\) \(3, 2, 20"):
        survey_site([(logits, masks)], classes=2)


@pytest.mark.parametrize("objects", [False, True])
def test_survey_survives_json(objects):
    logits, masks = two_class_site(12)
    masks[masks == 2] = 0
    survey = survey_site([(logits, masks)], classes=2, objects=objects)
    data = json.loads(json.dumps(survey.to_dict(), allow_nan=False))
    again = SiteSurvey.from_dict(data)
    np.testing.assert_array_equal(again.q, survey.q)
    assert again.cases.tolist() == [12, 0]
    assert again.objects == survey.objects
    assert set(data) == {"q", "cases"} | ({"objects"} if objects else set())
