"""Volumes of thick slices: bands, offsets and noise in space, not in voxels."""

import numpy as np
import pytest
from scipy import ndimage

from feda3i.core.cases import Cases
from feda3i.geometry import signed_distance, touched_faces
from feda3i.noise import Annotator, SignedDistanceEvolution, apply_noise
from feda3i.quality import (
    boundary_regions,
    contour_offset,
    learning_difficulty,
    measure_edges,
    redraw,
    shift_mask,
    survey_site,
)

THICK = (4.0, 1.0, 1.0)


def ball(radius, thick=THICK, shape=(24, 64, 64), shift=0.0):
    """Return a ball in space, sampled by voxels of this size."""
    middle = [(n - 1) * size / 2 + shift for n, size in zip(shape, thick, strict=True)]
    grid = np.indices(shape).reshape(3, -1).T * np.array(thick)
    return (np.linalg.norm(grid - middle, axis=1) <= radius).reshape(shape)


def test_bands_are_those_of_the_plain_formula():
    drawn = ball(17.0)
    inner, outer = boundary_regions(drawn, THICK)
    inside = ndimage.distance_transform_edt(drawn, sampling=THICK)
    outside = ndimage.distance_transform_edt(~drawn, sampling=THICK)
    limit = min(inside.max(), outside.max())
    np.testing.assert_array_equal(inner, drawn & (inside <= limit))
    np.testing.assert_array_equal(outer, ~drawn & (outside <= limit))
    assert not np.array_equal(outer, boundary_regions(drawn)[1])


def test_the_outer_band_is_as_wide_along_thick_slices_as_across_them():
    _, outer = boundary_regions(ball(16.0), THICK)
    band = np.argwhere(outer)
    reach = (band.max(axis=0) - band.min(axis=0)) * np.array(THICK)
    assert np.ptp(reach) <= 2 * max(THICK)


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (2.5, 2.5, 2.5)])
def test_equal_sides_change_nothing(spacing):
    drawn, other = ball(9, (1, 1, 1), (32, 32, 32)), ball(7, (1, 1, 1), (32, 32, 32))
    for one, two in zip(boundary_regions(drawn, spacing), boundary_regions(drawn), strict=True):
        np.testing.assert_array_equal(one, two)
    assert contour_offset(drawn, other, spacing) == contour_offset(drawn, other)
    scaled = spacing[0] * signed_distance(drawn)
    np.testing.assert_allclose(signed_distance(drawn, spacing), scaled, rtol=1e-5)


def test_the_border_lies_midway_along_every_axis():
    mask = np.zeros((6, 5, 5), np.uint8)
    mask[2:4, :, :] = 1
    along = signed_distance(mask, (4.0, 1.0, 1.0))[:, 2, 2]
    assert along.tolist() == [6.0, 2.0, -2.0, -2.0, 2.0, 6.0]


def test_faces_count_by_their_area():
    mask = np.zeros((5, 7, 7), np.uint8)
    mask[1:4, 2:5, 2:5] = 1
    held = touched_faces(mask, THICK)
    assert held[1, 3, 3] == 1 / 4  # top: across a thick slice
    assert held[2, 2, 3] == 1.0  # side
    assert held[0, 3, 3] == 1 / 4  # outside, above
    assert held[2, 3, 3] == 0.0  # in the middle
    even = touched_faces(mask, (1, 1, 1))
    assert set(np.unique(even)) == {0.0, 1.0}


@pytest.mark.parametrize("difference", [-4.0, 4.0, 8.0])
def test_offsets_are_distances_in_space(difference):
    drawn, predicted = ball(16.0 + difference), ball(16.0)
    # Slices cut a ball into steps, so a part of a slice is all that can be asked for.
    assert contour_offset(drawn, predicted, THICK) == pytest.approx(difference, abs=THICK[0] / 5)
    assert contour_offset(predicted, drawn, THICK) == pytest.approx(-difference, abs=THICK[0] / 5)
    assert abs(contour_offset(drawn, predicted) - difference) > THICK[0] / 5
    halves = tuple(size / 2 for size in THICK)  # sizes in another unit: pixels of the smallest side
    assert contour_offset(drawn, predicted, halves) == contour_offset(drawn, predicted, THICK)


def test_a_site_takes_the_size_of_each_case():
    drawn = np.stack([ball(17.0), ball(17.0)]).astype(np.uint8)
    logits = np.where(np.stack([ball(14.0)] * 2), 5.0, -5.0)[:, None]
    sizes = np.array([THICK, (1.0, 1.0, 1.0)])
    found = survey_site([(logits, drawn)], spacing=sizes, offsets=True)
    each = [
        learning_difficulty(logits[k, 0], drawn[k], spacing=sizes[k].tolist()) for k in range(2)
    ]
    np.testing.assert_allclose(found.q[0], np.mean(each, axis=0))
    assert each[0] != each[1]
    offsets = [contour_offset(drawn[k], logits[k, 0] > 0, sizes[k].tolist()) for k in range(2)]
    assert found.offset[0, 0] == pytest.approx(np.median(offsets))


@pytest.mark.parametrize("mu", [-6.0, 6.0])
def test_noise_moves_borders_in_space(mu):
    """A ball stays a ball: it changes by as many millimetres along slices as across them."""
    masks = ball(16.0)[None].astype(np.uint8)
    sites, drawers = {"a": np.array([0])}, {"a": Annotator(mu, 0.0)}
    spacing = np.array([THICK])
    kinds = {"seed": 0, "name": "levelset"}
    noisy = apply_noise(masks, ["x"], sites, drawers, spacing=spacing, **kinds).masks[0]
    assert contour_offset(noisy, masks[0], THICK) == pytest.approx(mu, abs=0.5)
    assert radius_of(noisy) == pytest.approx(16 + mu, abs=0.8)
    blind = apply_noise(masks, ["x"], sites, drawers, **kinds).masks[0]
    assert np.ptp(extent_of(noisy)) <= THICK[0]
    if mu > 0:  # blind to voxels, it would grow by six slices
        assert np.ptp(extent_of(blind)) > 2 * THICK[0]


def extent_of(mask):
    """Return how long a mask is in space along each axis."""
    places = np.argwhere(mask)
    return (np.ptp(places, axis=0) + 1) * np.array(THICK)


def radius_of(mask):
    """Return the radius in space of the ball with as much volume."""
    return float((mask.sum() * np.prod(THICK) / (4 / 3 * np.pi)) ** (1 / 3))


def test_a_size_given_in_the_recipe_stays():
    given = SignedDistanceEvolution(1.0, 0.0, spacing=(2.0, 1.0, 1.0))
    assert given.for_spacing(THICK) is given
    assert SignedDistanceEvolution(1.0, 0.0).for_spacing(THICK).spacing == THICK


def cases_of(spacing, shape=(2, 8, 8, 8)):
    images = np.zeros((*shape, 1), np.uint8)
    sizes = None if spacing is None else np.array(spacing)
    return Cases(("a", "b"), images, np.zeros(shape, np.uint8), spacing=sizes)


def test_cases_know_the_voxels_of_volumes_only():
    sizes = cases_of([(5.0, 1.0, 1.0), (3.0, 1.5, 1.5)]).voxels()
    assert sizes.tolist() == [[5.0, 1.0, 1.0], [2.0, 1.0, 1.0]]
    assert cases_of(None).voxels() is None
    assert cases_of([(0.7, 0.7, 0.7)] * 2).voxels() is None
    assert cases_of([(2.0, 1.0)] * 2, (2, 8, 8)).voxels() is None


def test_edges_are_measured_in_space():
    images = np.stack([200 - 120 * ball(15.0, shift=k / 4).astype(int) for k in range(8)])
    masks = np.stack([ball(18.0, shift=k / 4) for k in range(8)])
    sizes = np.tile(THICK, (8, 1))
    assert measure_edges(images, masks, spacing=sizes).offset == pytest.approx(3, abs=0.6)
    assert measure_edges(images, masks, spacing=2 * sizes).offset == pytest.approx(3, abs=0.6)


def test_contours_move_as_far_along_thick_slices_as_across_them():
    before, grown = ball(13.0), shift_mask(ball(13.0), 4.0, THICK)
    reach = [np.ptp(np.argwhere(one), axis=0) * np.array(THICK) for one in (before, grown)]
    assert (reach[1] - reach[0]).tolist() == [8, 8, 8]
    assert contour_offset(grown, before, THICK) == pytest.approx(4, abs=0.3)
    shrunk = shift_mask(ball(17.0), -4.0, THICK)
    assert contour_offset(shrunk, ball(17.0), THICK) == pytest.approx(-4, abs=0.6)
    assert np.array_equal(shift_mask(ball(13.0), 4.0, (2, 2, 2)), shift_mask(ball(13.0), 4.0))
    classes = ball(13.0).astype(np.uint8)
    assert np.array_equal(redraw(classes, [4.0], THICK) > 0, grown)
