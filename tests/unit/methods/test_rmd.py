"""RMD: two networks at every site."""

import math

import numpy as np
import pytest
import torch
from at_site import PLAIN, final_values, site_of

from feda3i import losses
from feda3i.methods.base import make_method
from feda3i.methods.rmd import TwoNetworks, Warp, distil, exchange, rotation_and_zoom, warp_each
from feda3i.models.unet import UNet
from feda3i.testing import tiny_federation

QUIET = (0.0,) * 5


def test_ramps_of_the_distillation_and_of_pixels_left_out():
    method = make_method("rmd", {})
    assert method.omega(0) == pytest.approx(0.0067, abs=5e-5)
    assert method.omega(5) == pytest.approx(0.2865, abs=5e-5)
    assert method.omega(10) == method.omega(99) == 1.0
    kept = [int((1 - method.forget(t)) * 524288) for t in range(30)]
    assert kept == sorted(kept, reverse=True)
    assert (kept[0], kept[9], kept[29]) == (524288, 521666, 521666)


def test_network_a_answers_and_stages_are_those_of_both():
    pair = TwoNetworks(UNet(width=2), UNet(width=2)).eval()
    assert (len(pair.stages), pair.stages[0], pair.stages[-1]) == (20, "a.inc", "b.outc")
    x = torch.rand(1, 3, 32, 32) * 255
    assert torch.equal(pair(x), pair.a(x))
    assert not torch.equal(pair(x), pair.b(x))


def test_neutral_setting_is_fedavg_bit_for_bit():
    a, b = np.split(final_values("rmd", {"tau": 0, "weight": 0}), 2)
    fedavg = final_values("fedavg")
    np.testing.assert_array_equal(a, fedavg)
    assert not np.array_equal(b, fedavg)


def test_the_step_is_the_sum_of_both_parts(tmp_path):
    site = site_of(tmp_path, "rmd", round=5, weight=2.0, tau=0.3, dropout=QUIET)
    method, batch = site.method, site.batch(np.arange(4))
    site.network.train()
    loss = method.step(site, batch)
    warps, images = method.disturb(site, batch)
    weak = [site.network.a(batch.images), site.network.b(batch.images)]
    strong = [site.network.a(images), site.network.b(images)]
    forget, omega = 0.3 * 4 / 9, math.exp(-5 * 0.6**2)
    expected = sum(exchange(weak, batch.masks, 1 - forget))
    count = int(omega * 0.8 * 4 * 32 * 32)
    expected = expected + 2.0 * omega * sum(
        distil(strong, [warp_each(warps, z) for z in weak], count)
    )
    torch.testing.assert_close(loss, expected)


def test_dropout_acts_in_the_second_pass_only(tmp_path):
    site = site_of(tmp_path, "rmd")
    site.network.train()
    batch = site.batch(np.arange(4))
    plain = site.network.a(batch.images)
    dropped = site.method.strong(site, batch, batch.images)
    again = site.method.strong(site, batch, batch.images)
    assert not torch.equal(dropped[0], plain)
    assert torch.equal(dropped[0], again[0])
    assert torch.equal(site.network.a(batch.images), plain)


def test_the_second_pass_moves_the_running_statistics_only_if_asked_to(tmp_path):
    def after_a_step(**options):
        site = site_of(tmp_path, "rmd", round=11, **options)
        site.network.train()
        loss = site.method.step(site, site.batch(np.arange(4)))
        return loss, {name: value.clone() for name, value in site.network.named_buffers()}

    _, first_pass = after_a_step(weight=0)
    loss, at_rest = after_a_step(strong_statistics=False)
    moved_loss, moved = after_a_step()
    assert torch.equal(loss, moved_loss)
    assert len(first_pass) > 0
    for name, value in first_pass.items():
        assert torch.equal(at_rest[name], value), name
        assert not torch.equal(moved[name], value), name


@pytest.mark.parametrize("dimensions", [2, 3])
def test_networks_without_the_switch_pass_without_dropout(tmp_path, dimensions):
    federation = tiny_federation(size=16, classes=2, dimensions=dimensions)
    site = site_of(tmp_path, "rmd", round=12, model=PLAIN, federation=federation)
    batch = site.batch(np.arange(2))
    plain = [site.network.a(batch.images), site.network.b(batch.images)]
    strong = site.method.strong(site, batch, batch.images)
    assert all(torch.equal(s, z) for s, z in zip(strong, plain, strict=True))
    assert math.isfinite(site.method.fit(site)["loss"])
    assert len(site.layout.stages) == 3  # B passes in training only; its tensors follow A's


@pytest.mark.parametrize("round", [5, 11])
def test_every_image_of_a_batch_is_warped_in_its_own_way(tmp_path, round):
    site = site_of(tmp_path, "rmd", round=round)
    batch = site.batch(np.arange(4))
    warps, images = site.method.disturb(site, batch)
    assert all((one.places is not None) == (round == 11) for one in warps)
    noise = images - warp_each(warps, batch.images)  # from the same round on
    inside = (images > 0) & (images < 255)
    assert noise[inside].std() == pytest.approx(0.02 * 255 * (round == 11), rel=0.1)
    assert 0 <= images.min() <= images.max() <= 255
    assert len({(warp.flips, str(warp.places)) for warp in warps}) > 1
    together = warp_each(warps, batch.images)
    for row, warp in enumerate(warps):
        torch.testing.assert_close(together[row], warp(batch.images[row : row + 1])[0])
    # The draw belongs to the image, not to its place in a batch.
    alone, _ = site.method.disturb(site, site.batch(np.array([2])))
    assert torch.equal(warp_each(alone, batch.images[2:3])[0], together[2])


def logits(seed, shape=(2, 1, 8, 8)):
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_each_learns_where_the_other_has_a_small_loss():
    shape = (2, 3, 8, 8)  # a pixel is left out with all its classes
    a, b, y = logits(1, shape), logits(2, shape), (logits(9, shape) > 0.5).float()
    loss_a, loss_b = (losses.pixel_cross_entropy(z, y).mean(1).flatten() for z in (a, b))
    count = int(0.7 * 128)
    expected = (loss_a[loss_b.argsort()[:count]].mean(), loss_b[loss_a.argsort()[:count]].mean())
    for found, wanted in zip(exchange([a, b], y, 0.7), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_distillation_teaches_on_the_reliable_pixels_of_the_other():
    weak, strong = [logits(1), logits(2)], [logits(3), logits(4)]
    errors = [((s - z) ** 2).flatten() for s, z in zip(strong, weak, strict=True)]
    count = 40
    for own, other in ((0, 1), (1, 0)):
        sure = errors[other].argsort()[:count]
        kl = losses.bernoulli_kl(weak[other], strong[own]).flatten()[sure].mean()
        torch.testing.assert_close(distil(strong, weak, count)[own], kl)


def test_a_turn_does_not_shear_a_frame_that_is_not_square():
    # A disc about the middle stays where it is under any rotation, and grows under a zoom.
    y, x = torch.meshgrid(torch.arange(41) - 20.0, torch.arange(61) - 30.0, indexing="ij")
    away = (x**2 + y**2).sqrt()[None, None]
    turned = Warp(places=rotation_and_zoom((41, 61), 37.0, 1.0))(away)
    inside = away < 15
    torch.testing.assert_close(turned[inside], away[inside], atol=0.15, rtol=0)
    x = torch.rand(2, 1, 6, 9)
    half = Warp(places=rotation_and_zoom((6, 9), 180.0, 1.0))(x)
    torch.testing.assert_close(half, x.flip(2).flip(3), atol=1e-5, rtol=0)
    zoomed = Warp(places=rotation_and_zoom((41, 61), 0.0, 2.0))(away)
    torch.testing.assert_close(zoomed, away / 2, atol=0.3, rtol=0)
