"""Volumes of thick slices: bands, offsets and noise in space, not in voxels."""

from dataclasses import replace

import numpy as np
import pytest
from drawn import distance
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
    return distance(shape, middle, thick) <= radius


def extent(mask):
    """Return how long a mask is in space along each axis."""
    return (np.ptp(np.argwhere(mask), axis=0) + 1) * np.array(THICK)


def test_bands_are_those_of_the_plain_formula_and_as_wide_along_slices_as_across_them():
    drawn = ball(17.0)
    inner, outer = boundary_regions(drawn, THICK)
    inside = ndimage.distance_transform_edt(drawn, sampling=THICK)
    outside = ndimage.distance_transform_edt(~drawn, sampling=THICK)
    limit = min(inside.max(), outside.max())
    np.testing.assert_array_equal(inner, drawn & (inside <= limit))
    np.testing.assert_array_equal(outer, ~drawn & (outside <= limit))
    assert not np.array_equal(outer, boundary_regions(drawn)[1])
    assert np.ptp(extent(boundary_regions(ball(16.0), THICK)[1])) <= 2 * max(THICK)


def test_equal_sides_change_nothing():
    drawn, other, spacing = ball(16.0), ball(13.0), (2.5, 2.5, 2.5)
    np.testing.assert_array_equal(boundary_regions(drawn, spacing), boundary_regions(drawn))
    assert contour_offset(drawn, other, spacing) == contour_offset(drawn, other)
    assert np.array_equal(shift_mask(drawn, 4.0, spacing), shift_mask(drawn, 4.0))
    scaled = spacing[0] * signed_distance(drawn)
    np.testing.assert_allclose(signed_distance(drawn, spacing), scaled, rtol=1e-5)


def test_borders_lie_midway_and_their_faces_count_by_area():
    mask = np.zeros((6, 5, 5), np.uint8)
    mask[2:4] = 1
    assert signed_distance(mask, THICK)[:, 2, 2].tolist() == [6.0, 2.0, -2.0, -2.0, 2.0, 6.0]
    mask = np.zeros((5, 7, 7), np.uint8)
    mask[1:4, 2:5, 2:5] = 1
    held = touched_faces(mask, THICK)
    # top of a thick slice, side, outside above, in the middle
    places = [(1, 3, 3), (2, 2, 3), (0, 3, 3), (2, 3, 3)]
    assert [held[place] for place in places] == [1 / 4, 1, 1 / 4, 0]


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
    sizes = [THICK, (1.0, 1.0, 1.0)]
    found = survey_site([(logits, drawn)], spacing=sizes)
    each = [learning_difficulty(logits[k, 0], drawn[k], sizes[k]) for k in range(2)]
    np.testing.assert_allclose(found.q[0], np.mean(each, axis=0))
    assert each[0] != each[1]


@pytest.mark.parametrize("mu", [-6.0, 6.0])
def test_noise_moves_borders_in_space(mu):
    """A ball stays a ball: it changes by as many millimetres along slices as across them."""
    masks = ball(16.0)[None].astype(np.uint8)
    given = (masks, ["x"], {"a": np.array([0])}, {"a": Annotator(mu, 0.0)})
    kinds = {"seed": 0, "name": "levelset"}
    noisy = apply_noise(*given, spacing=np.array([THICK]), **kinds).masks[0]
    assert contour_offset(noisy, masks[0], THICK) == pytest.approx(mu, abs=0.5)
    assert np.ptp(extent(noisy)) <= THICK[0]
    if mu > 0:  # blind to voxels, it would grow by six slices
        assert np.ptp(extent(apply_noise(*given, **kinds).masks[0])) > 2 * THICK[0]
    own = SignedDistanceEvolution(1.0, 0.0, spacing=(2.0, 1.0, 1.0))  # given in the recipe
    assert own.for_spacing(THICK) is own


@pytest.mark.parametrize(
    ("spacing", "expected"),
    [
        ([(5.0, 1.0, 1.0), (3.0, 1.5, 1.5)], [[5.0, 1.0, 1.0], [2.0, 1.0, 1.0]]),
        ([(0.7, 0.7, 0.7)] * 2, None),
        ([(2.0, 1.0)] * 2, None),  # pixels of pictures are square
    ],
)
def test_cases_know_the_voxels_of_volumes_only(spacing, expected):
    masks = np.zeros((2, *[8] * len(spacing[0])), np.uint8)
    cases = Cases(("a", "b"), masks[..., None], masks)
    found = replace(cases, spacing=np.array(spacing)).voxels()
    assert (None if found is None else found.tolist()) == expected
    assert cases.voxels() is None


def test_edges_are_measured_in_space():
    images = np.stack([200 - 120 * ball(15.0, shift=k / 4).astype(int) for k in range(8)])
    masks = np.stack([ball(18.0, shift=k / 4) for k in range(8)])
    for size in (1, 2):
        found = measure_edges(images, masks, spacing=np.tile(THICK, (8, 1)) * size)
        assert found.offset == pytest.approx(3, abs=0.6)


def test_contours_move_as_far_along_thick_slices_as_across_them():
    before, grown = ball(13.0), shift_mask(ball(13.0), 4.0, THICK)
    assert (extent(grown) - extent(before)).tolist() == [8, 8, 8]
    assert contour_offset(grown, before, THICK) == pytest.approx(4, abs=0.3)
    shrunk = shift_mask(ball(17.0), -4.0, THICK)
    assert contour_offset(shrunk, ball(17.0), THICK) == pytest.approx(-4, abs=0.6)
    assert np.array_equal(redraw(before.astype(np.uint8), [4.0], THICK) > 0, grown)
