"""Edge evidence of single cases: against its formula, on known borders, and on odd input."""

import math
import warnings

import numpy as np
import pytest
from drawn import distance, picture, site
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from feda3i.errors import DataError
from feda3i.geometry import signed_distance
from feda3i.quality import measure_edges
from feda3i.quality.edges import RIDGE, SIDE, WEAKEST, Evidence, colour_profile


def edge_offset(image, mask):
    """Return how far one mask lies outside the border in its image; ``NaN`` if none stands out."""
    profile = colour_profile(image, mask)
    shift, strength = (math.nan, 0) if profile is None else Evidence([profile]).best(np.ones(1))
    return -shift * max(mask.shape) / SIDE if strength >= WEAKEST else math.nan


@pytest.mark.parametrize("side", [256, 128, 48])
@pytest.mark.parametrize("offset", [-15, -5, 0, 5, 15])
def test_known_offsets_are_found_at_every_size(side, offset):
    scale = side / 256
    away = distance((side, side))
    image = picture(away, 50 * scale, blur=scale)
    found = edge_offset(image, away < (50 + offset) * scale)
    assert found == pytest.approx(offset * scale, abs=max(scale, 0.35))


def test_evidence_is_what_a_linear_regression_explains():
    """1 - exp(-evidence) is R^2 of inside and outside regressed on the colours of the band."""
    away = distance((256, 256))
    image = np.stack([picture(away, 60, seed=k, noise=20.0 * (k + 1)) for k in range(3)], axis=-1)
    mask = away < 66
    drawn = signed_distance(mask)[::2, ::2]  # sampled as the profile is
    colours = image[::2, ::2] / 64.0
    for shift in (-20, -6, 0, 11):
        band = (drawn >= shift - 30) & (drawn < shift + 30)
        inside = (drawn < shift)[band].astype(float)
        features = np.column_stack([colours[band], np.ones(band.sum())])
        fit = features @ np.linalg.lstsq(features, inside, rcond=None)[0]
        explained = ((fit - inside.mean()) ** 2).sum() / ((inside - inside.mean()) ** 2).sum()
        evidence = Evidence([colour_profile(image, mask)]).of(shift, shift - 30, shift + 30)
        assert 1 - np.exp(-evidence[0]) == pytest.approx(explained, rel=20 * RIDGE)


def test_negatives_are_alike_and_an_image_without_a_border_says_nothing():
    away = distance((128, 128))
    image, mask = picture(away, 30), away < 34
    assert edge_offset(255 - image, mask) == pytest.approx(edge_offset(image[..., None], mask))
    assert math.isnan(edge_offset(picture(away, 30, inside=120, outside=120), mask))
    assert math.isnan(edge_offset(image, away < 0))
    with pytest.raises(DataError, match=r"found image \(8, 9, 1\) and mask \(8, 8\)"):
        edge_offset(np.zeros((8, 9, 1)), np.ones((8, 8)))


@pytest.mark.parametrize("side", [32, 48, 64])
def test_small_images_are_measured_between_their_pixels(side):
    """Half a pixel of 32 are 4 of 256: the steps of whole pixels would hide it."""
    for offset in (-0.5, 0.0, 0.5, 1.0):
        images, masks = site(offset, 12, side, radius=side / 5, wobble=0.0, blur=0.4)
        assert measure_edges(images, masks).offset == pytest.approx(offset, abs=0.25)


@pytest.mark.parametrize(
    ("image", "away"),
    [
        # red inside and green outside, equally bright
        ([(140, 90), (90, 140), (90, 90)], distance((128, 128))),
        ([(80, 150)] * 6, distance((32, 32))),
        ([(80, 150)], distance((40, 44, 36))),
    ],
)
def test_images_of_several_channels_and_volumes(image, away):
    sides = [{"inside": a, "outside": b, "blur": 0.5} for a, b in image]
    colours = [picture(away, 9, seed=k, **one) for k, one in enumerate(sides)]
    assert edge_offset(np.stack(colours, axis=-1), away < 11) == pytest.approx(2, abs=0.8)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_image_and_mask_end_without_a_warning(data):
    shape = data.draw(arrays.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=14))
    mask = data.draw(arrays.arrays(np.uint8, shape, elements=st.integers(0, 1)))
    channels = data.draw(st.integers(1, 4))
    image = data.draw(arrays.arrays(np.uint8, (*shape, channels)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = edge_offset(image, mask)
    assert math.isnan(found) or abs(found) <= 64 * max(shape) / 256
