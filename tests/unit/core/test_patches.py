import numpy as np
import pytest
import torch

from feda3i.core.patches import cut_out, draw_corner, foreground_places, slide


def corners(mask, patch, foreground, count=400):
    places = foreground_places(mask, 2)
    rng = np.random.default_rng(0)
    return np.array([draw_corner(mask.shape, patch, places, foreground, rng) for _ in range(count)])


def test_patches_stay_within_the_case_reach_all_of_it_and_hold_foreground_as_asked():
    mask, patch = np.zeros((20, 30, 16), np.uint8), (8, 8, 8)
    mask[2:4, 25:28, 10:12] = 1
    mask[15, 3, 3] = 2
    for share in (0.0, 0.5, 1.0):
        found = corners(mask, patch, share)
        assert (found >= 0).all()
        assert (found + 8 <= mask.shape).all()
    (places,) = foreground_places(np.ones((60, 60, 60), np.uint8), 1)  # thinned out evenly
    assert (len(places), places[0], places[-1]) == (4096, 0, 60**3 - 1)
    found = corners(mask, patch, 0.0)
    assert (found.min(axis=0) == 0).all()
    assert (found.max(axis=0) == np.array(mask.shape) - 8).all()
    # With a share of 1 all hold foreground, of all classes alike.
    held = [set(np.unique(cut_out(mask, c, patch))) - {0} for c in corners(mask, patch, 1.0)]
    assert all(held)
    assert 0.4 < np.mean([2 in one for one in held]) < 0.6  # though it has a twelfth of the voxels


def test_a_case_smaller_than_the_patch_lies_in_its_middle():
    values = np.arange(1, 13).reshape(2, 6)
    corner = draw_corner((2, 6), (5, 4), [], 0.0, np.random.default_rng(0))
    assert corner[0] == -1
    out = cut_out(values, corner, (5, 4), -7)
    np.testing.assert_array_equal(out[1:3], values[:, corner[1] : corner[1] + 4])
    assert (out[[0, 3, 4]] == -7).all()


def by_channel(images):
    """Stand in for a network: two classes, each a sum of the channel and its neighbour."""
    moved = torch.roll(images[:, :1], 1, dims=-1)
    return torch.cat([images[:, :1] + 0.5 * moved, moved * images[:, :1].tanh()], dim=1)


@pytest.mark.parametrize("shape", [(20, 30, 17), (16, 16, 16), (9, 40, 16), (5, 6, 7)])
@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5])
def test_sliding_window_equals_monai(shape, overlap):
    inferers = pytest.importorskip("monai.inferers")
    image = torch.from_numpy(np.random.default_rng(1).normal(size=(1, *shape))).float()
    ours = slide(image, (16, 16, 16), by_channel, torch.zeros(1), overlap)
    theirs = inferers.sliding_window_inference(
        image[None], (16, 16, 16), 4, by_channel, overlap=overlap, mode="gaussian"
    )
    torch.testing.assert_close(ours, theirs[0], rtol=1e-4, atol=1e-4)
