import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from feda3i.core.resize import resize_image, resize_mask


def overlap(before: int, after: int) -> np.ndarray:
    """Return the share of each old pixel in each new one, from the lengths of their overlaps."""
    edges_new = np.linspace(0, before, after + 1)
    old = np.arange(before)
    shared = np.minimum(edges_new[1:, None], old + 1) - np.maximum(edges_new[:-1, None], old)
    return np.clip(shared, 0, None) * after / before


@given(arrays(np.uint8, st.tuples(st.integers(4, 20), st.integers(4, 20))), st.integers(1, 4))
def test_shrinking_an_image_is_the_mean_over_the_area(image, side):
    exact = overlap(image.shape[0], side) @ image @ overlap(image.shape[1], side).T
    found = resize_image(image[..., None], (side, side))[..., 0]
    assert np.abs(found - exact).max() <= 0.51


@given(arrays(bool, st.tuples(st.integers(4, 20), st.integers(4, 20))), st.integers(1, 4))
def test_a_pixel_is_foreground_if_half_of_it_is(mask, side):
    share = overlap(mask.shape[0], side) @ mask @ overlap(mask.shape[1], side).T
    found = resize_mask(mask.astype(np.uint8), (side, side))
    np.testing.assert_array_equal(found, share >= 0.5 - 1e-6)


def test_classes_compete_for_the_foreground():
    mask = np.array([[1, 1, 0, 0], [2, 0, 2, 2]], np.uint8)
    assert resize_mask(mask, (1, 2)).tolist() == [[1, 2]]
    assert resize_mask(np.zeros((4, 4), np.uint8), (2, 2)).tolist() == [[0, 0], [0, 0]]


def test_growing_one_side_and_shrinking_the_other_and_volumes_along_all_axes():
    column = np.linspace(0, 240, 9).astype(np.uint8)
    image = np.repeat(column[:, None, None], 2, axis=1)
    found = resize_image(image, (3, 4))
    assert found.shape == (3, 4, 1)
    np.testing.assert_array_equal(found[:, 0, 0], [30, 120, 210])
    volume = np.arange(64, dtype=np.uint8).reshape(4, 4, 4, 1)
    exact = volume.reshape(2, 2, 2, 2, 2, 2).mean(axis=(1, 3, 5))
    found = resize_image(volume, (2, 2, 2))[..., 0]
    assert np.abs(found - exact).max() <= 0.5
    assert resize_mask((volume[..., 0] >= 32).astype(np.uint8), (2, 2, 2)).sum() == 4
