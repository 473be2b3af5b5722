"""Relabelling: which instances, and where confidence allows it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from feda3i.methods.corrected import highest, relabel


@given(arrays(float, (3, 4, 5), elements=st.floats(0, 9)), st.integers(0, 60))
def test_the_highest_are_no_lower_than_the_rest(losses, count):
    chosen = highest(losses, count)
    assert chosen.sum() == count
    if 0 < count < losses.size:
        assert losses[chosen].min() >= losses[~chosen].max()


def draw(seed=0):
    random = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2, 2, 6, 6, generator=random)
    masks = torch.rand(2, 2, 6, 6, generator=random) > 0.5
    chosen = torch.rand(2, 2, 6, 6, generator=random) > 0.5
    return masks, logits, chosen


def test_theta_of_one_half_gives_the_prediction_and_of_one_the_mask():
    masks, logits, _ = draw()
    torch.testing.assert_close(relabel(masks, logits, None, 0.5), logits > 0)
    torch.testing.assert_close(relabel(masks, 1e4 * logits, None, 1.0), masks)


@pytest.mark.parametrize("theta", [0.5, 0.7, 0.99])
def test_only_chosen_and_sure_pixels_change(theta):
    masks, logits, chosen = draw()
    p = torch.sigmoid(logits)
    may = chosen & (torch.maximum(p, 1 - p) > theta)
    found = relabel(masks, logits, chosen, theta)
    torch.testing.assert_close(found, torch.where(may, p > 0.5, masks))
    assert (found != masks).any()
    torch.testing.assert_close(relabel(found, logits, chosen, theta), found)
