"""Offsets from a model's contours: discs of known radii, and the median of a site."""

import math

import numpy as np
import pytest
from drawn import distance

from feda3i.quality import contour_offset, site_offset


def disc(radius, size=64, centre=32):
    return distance((size, size), (centre, centre)) <= radius


@pytest.mark.parametrize("by", [-6, -3, 0, 1, 4, 9])
def test_discs_differ_by_their_radii(by):
    # Distances between pixels are a little short on slanted borders: at most 8 % or 0.2 px.
    assert contour_offset(disc(15 + by), disc(15)) == pytest.approx(by, rel=0.08, abs=0.21)
    assert contour_offset(disc(15), disc(15 + by)) == pytest.approx(-by, rel=0.08, abs=0.21)


def test_a_ball_in_three_dimensions():
    away = distance((32, 32, 32), (16, 16, 16))
    assert contour_offset(away <= 11, away <= 8) == pytest.approx(3, abs=0.25)


def test_a_border_at_the_frame_is_no_border():
    half, more = np.zeros((32, 32)), np.zeros((32, 32))
    half[:, :16], more[:, :19] = 1, 1
    assert contour_offset(more, half) == 3
    assert contour_offset(half, more) == -3


def test_cropping_changes_nothing():
    big, small = disc(9, 200, 60), disc(6, 200, 62)
    cropped = contour_offset(big[40:80, 40:80], small[40:80, 40:80])
    assert contour_offset(big, small) == pytest.approx(cropped, abs=1e-6)


@pytest.mark.parametrize("empty", [np.zeros((8, 8)), np.ones((8, 8))])
def test_without_two_contours_there_is_no_offset(empty):
    assert math.isnan(contour_offset(np.eye(8), empty))
    assert math.isnan(contour_offset(empty, np.eye(8)))


def test_a_missed_object_does_not_move_a_sites_offset():
    assert site_offset([2.0, 2.1, 1.9, 2.0, 2.0, -40.0])[0] == pytest.approx(2.0)
    assert np.isnan(site_offset([2.0])).all()  # one case has no spread
    assert np.isnan(site_offset([2.0, np.nan, np.nan, np.nan, 2.0])).all()  # the model sees too few


def test_the_error_is_that_of_a_median():
    draw = np.random.default_rng(0)
    medians = [np.median(draw.normal(0, 3, 25)) for _ in range(4000)]
    errors = [site_offset(draw.normal(0, 3, 25))[1] for _ in range(400)]
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.05)
