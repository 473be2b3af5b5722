"""Flips and warps of batches."""

import numpy as np
import pytest
import torch

from feda3i.methods.warps import (
    Warp,
    draw_deformation,
    draw_flips,
    rotation_and_zoom,
)


@pytest.mark.parametrize("flips", [(), (0,), (1,), (0, 1)])
def test_flips_undo_themselves(flips):
    x = torch.rand(2, 3, 5, 7)
    warp = Warp(flips)
    assert torch.equal(warp(warp(x)), x)
    assert torch.equal(warp(x), x) == (flips == ())


def test_flips_in_three_dimensions():
    x = torch.rand(1, 1, 3, 4, 5)
    assert torch.equal(Warp((0, 2))(x), x.flip(2).flip(4))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_every_set_of_axes_is_drawn_equally_often(dimensions):
    rng = np.random.default_rng(0)
    drawn = [draw_flips(rng, dimensions) for _ in range(4000)]
    kinds = 2**dimensions
    shares = [drawn.count(flips) / len(drawn) for flips in set(drawn)]
    assert len(shares) == kinds
    np.testing.assert_allclose(shares, 1 / kinds, atol=0.03)


@pytest.mark.parametrize(
    ("degrees", "turned"),
    [(0, lambda x: x), (180, lambda x: x.flip(2).flip(3))],
)
def test_rotation_of_any_frame(degrees, turned):
    x = torch.rand(2, 1, 6, 9)
    torch.testing.assert_close(
        Warp(places=rotation_and_zoom((6, 9), degrees, 1.0))(x), turned(x), atol=1e-5, rtol=0
    )


def test_a_quarter_turn_of_a_square():
    x = torch.rand(1, 2, 8, 8)
    once = Warp(places=rotation_and_zoom((8, 8), 90, 1.0))(x)
    expected = min(
        (torch.rot90(x, k, (2, 3)) for k in (1, 3)), key=lambda y: float((y - once).abs().max())
    )
    torch.testing.assert_close(once, expected, atol=1e-5, rtol=0)


def test_a_turn_does_not_shear_a_frame_that_is_not_square():
    # A disc about the middle stays where it is under any rotation, and grows under a zoom.
    y, x = torch.meshgrid(torch.arange(41) - 20.0, torch.arange(61) - 30.0, indexing="ij")
    away = (x**2 + y**2).sqrt()[None, None]
    turned = Warp(places=rotation_and_zoom((41, 61), 37.0, 1.0))(away)
    inside = away < 15
    torch.testing.assert_close(turned[inside], away[inside], atol=0.15, rtol=0)
    zoomed = Warp(places=rotation_and_zoom((41, 61), 0.0, 2.0))(away)
    torch.testing.assert_close(zoomed, away / 2, atol=0.3, rtol=0)


def test_beyond_the_frame_the_border_is_repeated():
    x = torch.rand(1, 1, 16, 16) + 1
    turned = Warp(places=rotation_and_zoom((16, 16), 45.0, 1.0))(x)
    assert turned.min() >= x.min() - 1e-6
    assert turned.max() <= x.max() + 1e-6


def test_draws_depend_on_the_generator_alone():
    one, two, three = (
        draw_deformation(np.random.default_rng(seed), (16, 20)) for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert one.shape == (16, 20, 2)
    assert one.abs().max() <= 1.5  # rotated by up to 60 degrees and magnified, never shrunk
