"""Distances, contours and normals against brute force, scipy and formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from feda3i import geometry
from feda3i.errors import DataError

sides = st.integers(2, 12)
masks = hnp.arrays(np.uint8, st.tuples(sides, sides), elements=st.integers(0, 1))


@settings(max_examples=25)
@given(masks.filter(lambda m: m.any() and not m.all()))
def test_signed_distance_is_exact(mask):
    inside, outside = np.argwhere(mask), np.argwhere(mask == 0)
    expected = np.empty(mask.shape)
    for place in np.ndindex(mask.shape):
        other = outside if mask[place] else inside
        nearest = np.sqrt(((other - np.array(place)) ** 2).sum(axis=1).min())
        expected[place] = (0.5 - nearest) if mask[place] else nearest - 0.5
    np.testing.assert_allclose(geometry.signed_distance(mask), expected, rtol=1e-6)


def test_distances_do_not_depend_on_where_arrays_lie():
    """OpenCV's own differ in their last bits for one mask of eight."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        height, width = rng.integers(20, 200, 2)
        rows, cols = np.ogrid[-height / 2 : height / 2, -width / 2 : width / 2]
        mask = np.hypot(rows, cols) < min(height, width) * rng.uniform(0.1, 0.45)
        exact = np.sqrt(np.rint(ndimage.distance_transform_edt(mask) ** 2)).astype(np.float32)
        kept = []
        for _ in range(6):
            kept.append(np.empty(rng.integers(1, 5000), np.uint8))  # moves what comes next
            np.testing.assert_array_equal(geometry.depth(mask), exact)
    far = np.arange(2600) > 0
    assert geometry.depth(far[None])[0].tolist() == list(range(2600))


def test_signed_distance_in_three_dimensions_with_spacing_and_without_a_border():
    ball = np.linalg.norm(np.mgrid[:15, :15, :15] - 7, axis=0) <= 4
    distance = geometry.signed_distance(ball)
    assert distance[7, 7, 7] == pytest.approx(-(np.sqrt(17) - 0.5))  # (4, 1, 0) is the nearest
    assert distance[7, 7, 14] == pytest.approx(2.5)
    wide = geometry.signed_distance(ball, spacing=(1.0, 1.0, 2.0))
    assert wide[7, 7, 14] == pytest.approx(5.0)  # three pixels of size 2, less half of one

    # No border is infinitely far.
    assert (geometry.signed_distance(np.zeros((3, 4))) == np.inf).all()
    assert (geometry.signed_distance(np.ones((3, 4))) == -np.inf).all()
    for spacing in ((1.0,), (1.0, 0.0), (1.0, -1.0)):
        with pytest.raises(DataError, match="pixel sizes"):
            geometry.signed_distance(np.eye(3), spacing)


@settings(max_examples=30)
@given(masks)
def test_filling_the_outer_contours_fills_the_holes_and_nothing_else(mask):
    contours, has_hole = geometry.outer_contours(mask)
    filled = np.zeros_like(mask)
    for contour in contours:
        filled |= geometry.fill_polygon(contour, mask.shape)
    background = np.pad(filled, 1) == 0
    expected = ndimage.binary_fill_holes(np.pad(mask, 1))  # background joined across sides only
    np.testing.assert_array_equal(~background, expected)
    if not has_hole:
        np.testing.assert_array_equal(filled, mask)


@pytest.mark.parametrize("radius", [12.0, 40.0])
def test_normals_of_a_disc_point_away_from_its_centre_whatever_the_start(radius):
    rows, cols = np.mgrid[:100, :100] - 50
    (contour,), _ = geometry.outer_contours((np.hypot(rows, cols) <= radius).astype(np.uint8))
    out = (contour - 50) / np.linalg.norm(contour - 50, axis=1, keepdims=True)
    normals = geometry.contour_normals(contour, reach=6)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
    assert (normals * out).sum(axis=1).min() > np.cos(np.deg2rad(10))
    turned = geometry.contour_normals(np.roll(contour, 17, axis=0), reach=6)
    np.testing.assert_array_equal(np.roll(normals, 17, axis=0), turned)


def test_the_tip_of_a_line_has_a_normal():
    mask = np.zeros((9, 30), np.uint8)
    mask[4, 5:25] = 1
    (contour,), _ = geometry.outer_contours(mask)
    normals = geometry.contour_normals(contour, 3)
    tip = contour.tolist().index([4, 24])
    np.testing.assert_allclose(normals[tip], [0, 1], atol=1e-9)
    point = geometry.contour_normals(np.array([[3, 3]], np.int32), 1)
    assert np.isfinite(point).all()


def test_components_touching_at_a_corner_are_one_or_two():
    mask = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]], np.uint8)
    assert geometry.label_components(mask)[1] == 1
    assert geometry.label_components(mask, is_diagonal=False)[1] == 2
    assert geometry.label_components(np.stack([mask, mask * 0, mask]), is_diagonal=False)[1] == 4
