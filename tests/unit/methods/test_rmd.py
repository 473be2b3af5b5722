"""RMD: two networks at every site."""

import math

import numpy as np
import pytest
import torch
from at_site import PLAIN, final_values, site_of, station_of

from feda3i.core.messages import Order
from feda3i.errors import RecipeError
from feda3i.methods.base import make_method
from feda3i.methods.coteaching import distil, exchange
from feda3i.methods.rmd import TwoNetworks
from feda3i.models.unet import UNet
from feda3i.testing import tiny_federation

QUIET = (0.0,) * 5


def halves(values):
    middle = len(values) // 2
    return values[:middle], values[middle:]


def test_defaults_are_those_of_the_comparison():
    method = make_method("rmd", {})
    assert (method.t1, method.mu, method.tau, method.weight) == (10, 0.8, 0.005, 0.0009)
    assert method.dropout == (0.05, 0.1, 0.2, 0.3, 0.5)
    assert method.warp_from == 10


@pytest.mark.parametrize(
    "options",
    [
        *({"t1": 0}, {"mu": 1.1}, {"mu": -0.1}, {"tau": 1.0}, {"tau": -0.1}, {"weight": -1}),
        *({"dropout": [0.1] * 4}, {"dropout": [0, 0, 0, 0, 1]}),
        {"loss": "dc"},
    ],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(RecipeError, match=next(iter(options))):
        make_method("rmd", options)


# -- ramps ----------------------------------------------------------------------------------------


def test_ramp_of_the_distillation():
    method = make_method("rmd", {})
    assert method.omega(0) == pytest.approx(0.0067, abs=5e-5)
    assert method.omega(5) == pytest.approx(0.2865, abs=5e-5)
    assert method.omega(10) == method.omega(99) == 1.0
    assert int(method.omega(0) * method.mu * 524288) == int(math.exp(-5) * 0.8 * 524288)
    assert method.omega(0) * method.mu == pytest.approx(0.00539, abs=5e-6)


def test_kept_pixels_fall_to_their_least():
    method = make_method("rmd", {})
    kept = [int((1 - method.forget(t)) * 524288) for t in range(30)]
    assert kept[0] == 524288
    assert kept == sorted(kept, reverse=True)
    assert kept[9] == kept[29] == 521666


@pytest.mark.parametrize("t1", [1, 2])
def test_short_ramps(t1):
    method = make_method("rmd", {"t1": t1})
    assert (method.forget(0), method.forget(1), method.omega(t1)) == (0.0, 0.005, 1.0)


# -- the pair -------------------------------------------------------------------------------------


def test_stages_are_those_of_both_networks():
    pair = TwoNetworks(UNet(width=2), UNet(width=2))
    assert len(pair.stages) == 20
    assert pair.stages[0] == "a.inc"
    assert pair.stages[-1] == "b.outc"


def test_network_a_answers():
    pair = TwoNetworks(UNet(width=2), UNet(width=2)).eval()
    x = torch.rand(1, 3, 32, 32) * 255
    assert torch.equal(make_method("rmd", {}).predict(pair, x), pair.a(x))
    assert torch.equal(pair(x), pair.a(x))
    assert not torch.equal(pair(x), pair.b(x))


def test_the_networks_begin_differently():
    a, b = halves(final_values("rmd", {"weight": 0}))
    assert not np.array_equal(a, b)


# -- training -------------------------------------------------------------------------------------


def test_neutral_setting_is_fedavg_bit_for_bit():
    a, b = halves(final_values("rmd", {"tau": 0, "weight": 0}))
    fedavg = final_values("fedavg")
    np.testing.assert_array_equal(a, fedavg)
    assert not np.array_equal(b, fedavg)


def fit_twice_the_same(folder, round, **options):
    """Train a site whose two networks are equal; return what becomes of both."""
    station = station_of(folder, "rmd", **options)
    params = station.job.initial
    a, _ = halves(params.values)
    params = params._replace(values=np.concatenate([a, a]))
    return halves(station.answer(Order("fit", round, "site-1", params)).params.values)


@pytest.mark.parametrize("round", [2, 12])
def test_equal_networks_stay_equal_without_dropout(tmp_path, round):
    a, b = fit_twice_the_same(tmp_path, round, weight=0.5, tau=0.2, dropout=QUIET)
    np.testing.assert_array_equal(a, b)
    a, b = fit_twice_the_same(tmp_path, round, weight=0.5, tau=0.2)
    assert not np.array_equal(a, b)


def test_the_step_is_the_sum_of_both_parts(tmp_path):
    site = site_of(tmp_path, "rmd", round=5, weight=2.0, tau=0.3, dropout=QUIET)
    method, batch = site.method, site.batch(np.arange(4))
    site.network.train()
    loss = method.step(site, batch)
    warp, images = method.disturb(site, batch)
    weak = [site.network.a(batch.images), site.network.b(batch.images)]
    strong = [site.network.a(images), site.network.b(images)]
    forget, omega = 0.3 * 4 / 9, math.exp(-5 * 0.6**2)
    expected = sum(exchange(weak, batch.masks, 1 - forget))
    count = int(omega * 0.8 * 4 * 32 * 32)
    expected = expected + 2.0 * omega * sum(distil(strong, [warp(z) for z in weak], count))
    torch.testing.assert_close(loss, expected)


def test_the_loss_sent_is_the_mean_of_the_two(tmp_path):
    # One batch of all cases: the loss before the only step is that of the received networks.
    site = site_of(tmp_path, "rmd", tau=0, weight=0, train={"batch": 4})
    site.network.train()
    batch = next(site.batches(0))
    expected = float(site.method.step(site, batch).detach()) / 2
    assert site.method.fit(site) == {"loss": pytest.approx(expected, rel=1e-6)}


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


def test_disturbances_grow_with_the_rounds(tmp_path):
    early = site_of(tmp_path, "rmd", round=10)
    warp, images = early.method.disturb(early, early.batch(np.arange(4)))
    assert all(one.places is None for one in warp.each)
    assert torch.equal(warp(images), early.batch(np.arange(4)).images)
    late = site_of(tmp_path, "rmd", round=11)
    batch = late.batch(np.arange(4))
    warp, images = late.method.disturb(late, batch)
    assert all(one.places is not None for one in warp.each)
    noise = images - warp(batch.images)
    inside = (images > 0) & (images < 255)
    assert noise[inside].std() == pytest.approx(0.02 * 255, rel=0.1)
    assert images.min() >= 0
    assert images.max() <= 255


def test_draws_differ_between_batches_epochs_rounds_and_sites(tmp_path):
    site = site_of(tmp_path, "rmd", round=11)
    other = site_of(tmp_path, "rmd", round=12)
    grids = [
        s.method.disturb(s, s.batch(np.array(where), epoch))[0].each[0].places
        for s, where, epoch in ((site, [0, 1], 0), (site, [2, 3], 0), (site, [0, 1], 1))
    ] + [other.method.disturb(other, other.batch(np.array([0, 1])))[0].each[0].places]
    for i, one in enumerate(grids):
        assert all(not torch.equal(one, two) for two in grids[i + 1 :])


@pytest.mark.parametrize("dimensions", [2, 3])
def test_networks_without_the_switch_pass_without_dropout(tmp_path, dimensions):
    federation = tiny_federation(size=16, classes=2, dimensions=dimensions)
    site = site_of(tmp_path, "rmd", round=12, model=PLAIN, federation=federation)
    batch = site.batch(np.arange(2))
    plain = [site.network.a(batch.images), site.network.b(batch.images)]
    strong = site.method.strong(site, batch, batch.images)
    assert all(torch.equal(s, z) for s, z in zip(strong, plain, strict=True))
    assert math.isfinite(site.method.fit(site)["loss"])
    assert len(site.layout.stages) == 6


def test_a_batch_with_too_few_reliable_pixels_is_not_distilled(tmp_path):
    # mu = 0: no pixel is reliable in any round, which leaves co-teaching alone.
    site = site_of(tmp_path, "rmd", round=12, mu=0, weight=1.0)
    site.network.train()
    batch = site.batch(np.arange(2))
    weak = [site.network.a(batch.images), site.network.b(batch.images)]
    expected = sum(exchange(weak, batch.masks, 0.995))
    torch.testing.assert_close(site.method.step(site, batch), expected)


@pytest.mark.parametrize("round", [5, 11])
def test_every_image_of_a_batch_is_warped_in_its_own_way(tmp_path, round):
    site = site_of(tmp_path, "rmd", round=round)
    batch = site.batch(np.arange(4))
    warps, _ = site.method.disturb(site, batch)
    assert len({(warp.flips, str(warp.places)) for warp in warps.each}) > 1
    together = warps(batch.images)
    for row, warp in enumerate(warps.each):
        torch.testing.assert_close(together[row], warp(batch.images[row : row + 1])[0])
    # The draw belongs to the image, not to its place in a batch.
    alone, _ = site.method.disturb(site, site.batch(np.array([2])))
    assert torch.equal(alone(batch.images[2:3])[0], together[2])
