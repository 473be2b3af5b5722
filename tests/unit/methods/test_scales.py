"""Images seen at another scale."""

import pytest
import torch
from torch import nn

from feda3i.methods.adele import at_scale, scaled_shape


def test_sizes_of_the_paper():
    shapes = [scaled_shape((256, 256), scale) for scale in (0.7, 1.0, 1.5)]
    assert shapes == [(179, 179), (256, 256), (384, 384)]


@pytest.mark.parametrize("side", [16, 20, 32, 33, 45])
def test_small_sides_are_not_made_smaller_than_a_network_takes(side):
    assert scaled_shape((side,), 0.7) == (min(side, 32),)


@pytest.mark.parametrize("scale", [0.5, 0.7, 1.3, 1.5])
@pytest.mark.parametrize("multiple", [8, 32])
def test_multiples(scale, multiple):
    (side,) = scaled_shape((256,), scale, multiple)
    assert side % multiple == 0
    assert abs(side - 256 * scale) <= multiple / 2


@pytest.mark.parametrize("shape", [(40, 50), (34, 36, 40)])
def test_logits_come_back_at_the_size_of_the_images(shape):
    sizes = []

    class Spy(nn.Module):
        def forward(self, x):
            sizes.append(tuple(x.shape[2:]))
            return x.mean(1, keepdim=True)

    images = torch.rand(2, 3, *shape)
    for scale in (0.9, 1.0, 1.5):
        assert at_scale(Spy(), images, scale).shape == (2, 1, *shape)
    assert sizes[1] == shape
    assert sizes[2] == tuple(int(1.5 * side) for side in shape)


def test_a_linear_picture_is_the_same_at_every_scale():
    # Bilinear with aligned corners keeps linear functions, there and back.
    y, x = torch.meshgrid(torch.linspace(0, 1, 40), torch.linspace(0, 3, 50), indexing="ij")
    images = (2 * y - x)[None, None]
    for scale in (0.9, 1.5):
        torch.testing.assert_close(at_scale(nn.Identity(), images, scale), images)
