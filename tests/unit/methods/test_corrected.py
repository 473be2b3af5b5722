"""Corrected masks at a site: bits at rest, the given masks until there are some."""

import numpy as np
import pytest
import torch
from at_site import site_of, unpack_masks
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, arrays

from feda3i.methods.corrected import (
    current_masks,
    pack_masks,
    relabel,
    remember_masks,
    unpack_cases,
)
from feda3i.testing import tiny_federation


@given(arrays(bool, array_shapes(min_dims=2, max_dims=4, max_side=9)))
def test_masks_survive_as_bits(masks):
    bits = pack_masks(masks)
    assert bits.shape == (len(masks), -(-masks[0].size // 8))
    np.testing.assert_array_equal(unpack_masks(bits, masks.shape[1:]), masks)
    two = pack_masks([masks[0], masks[0].ravel()[:1]])  # of several sizes
    (last,) = unpack_cases(two, [1], [masks[0].shape, (1,)])
    np.testing.assert_array_equal(last, masks[0].ravel()[:1])


def test_remembered_masks_replace_the_given_ones_case_by_case(tmp_path):
    site = site_of(tmp_path, "fedcorr", federation=tiny_federation(classes=2))
    everyone = site.batch(np.arange(4))
    given_masks = everyone.masks.clone()
    assert current_masks(site, everyone) is everyone.masks
    turned = given_masks == 0
    remember_masks(site, [turned[:3], turned[3:]])
    batch = site.batch(np.array([3, 1]))
    assert torch.equal(current_masks(site, batch), 1 - batch.masks)
    assert current_masks(site, batch).dtype == batch.masks.dtype
    assert torch.equal(site.batch(np.arange(4)).masks, given_masks)


@pytest.mark.parametrize("theta", [0.5, 0.7, 0.99])
def test_only_chosen_and_sure_pixels_change(theta):
    torch.manual_seed(0)
    logits = 3 * torch.randn(2, 2, 6, 6)
    masks, chosen = (torch.rand(2, 2, 6, 6) > 0.5 for _ in range(2))
    p = torch.sigmoid(logits)
    may = chosen & (torch.maximum(p, 1 - p) > theta)
    found = relabel(masks, logits, chosen, theta)
    torch.testing.assert_close(found, torch.where(may, p > 0.5, masks))
    assert (found != masks).any()
    torch.testing.assert_close(relabel(found, logits, chosen, theta), found)
