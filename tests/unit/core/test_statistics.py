"""Exact statistics of BatchNorm: measured at the sites, pooled as if all were in one place."""

import numpy as np
import pytest
import torch
from torch import nn

from feda3i.core.layout import Layout, Stage
from feda3i.core.messages import Replies, Reply, Wire
from feda3i.core.statistics import check_norms, measure, norms_of, with_statistics
from feda3i.core.wire import check_reply
from feda3i.errors import RecipeError, WireError
from feda3i.models.unet import UNet


def layout_of(network):
    return Layout.of(network, [Stage("all", tuple(network.state_dict()))])


def replies_of(*numbers):
    each = (Reply("measure", 1, f"site-{k}", 2, one) for k, one in enumerate(numbers))
    return Replies("measure", 1, tuple(each))


def images(cases, seed=0, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    return 255 * torch.rand((cases, 3, 32, 32), generator=generator) + shift


def test_one_batch_gives_what_batch_norm_itself_sees():
    """With momentum 1 a pass in training mode keeps the batch's statistics: the oracle."""
    network = UNet(width=4, momentum=1.0).double()
    layout = layout_of_double(network)
    batch = images(4).double()
    numbers = measure(network, layout, [batch])
    found = with_statistics(layout.read(network), layout, replies_of(numbers))
    network.train()
    network(batch)
    expected = layout.read(network)
    for row, norm in enumerate(norms_of(layout)):
        mean, variance = (slice(e.start, e.stop) for e in (norm.mean, norm.variance))
        np.testing.assert_allclose(found.values[mean], expected.values[mean], rtol=1e-12)
        count = numbers["elements"][row]
        unbiased = found.values[variance] * count / (count - 1)
        np.testing.assert_allclose(unbiased, expected.values[variance], rtol=1e-10)


def layout_of_double(network):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return layout_of(network)
    finally:
        torch.set_default_dtype(before)


def test_sites_pool_to_the_moments_of_all_images():
    """The first layer's input needs no other layer's statistics: any division must pool exactly."""
    network = UNet(width=4)
    layout = layout_of(network)
    every = torch.cat([images(3), images(2, 1, 40.0), images(1, 2, -20.0)])
    parts = [every[:3], every[3:5], every[5:]]
    found = with_statistics(
        layout.read(network),
        layout,
        replies_of(*(measure(network, layout, part.split(2)) for part in parts)),
    )
    first = norms_of(layout)[0]
    with torch.no_grad():
        entering = network.inc[0]((every - 128) / 64).double()
    variance, mean = torch.var_mean(entering, dim=(0, 2, 3), correction=0)
    np.testing.assert_allclose(found.values[first.mean.start : first.mean.stop], mean, rtol=1e-5)
    np.testing.assert_allclose(
        found.values[first.variance.start : first.variance.stop], variance, rtol=1e-5
    )


def test_only_statistics_change_and_the_network_stays_as_it_was():
    network = UNet(width=4).train()
    network.pool.eval()
    layout = layout_of(network)
    before = layout.read(network)
    numbers = measure(network, layout, [images(2)])
    np.testing.assert_array_equal(layout.read(network).values, before.values)
    assert network.training
    assert network.inc[1].training
    assert network.inc[1].track_running_stats
    assert not network.pool.training
    assert not network.inc[1]._forward_pre_hooks
    after = with_statistics(before, layout, replies_of(numbers))
    trained = layout.trained()
    np.testing.assert_array_equal(after.values[trained], before.values[trained])
    assert (after.values[~trained] != before.values[~trained]).all()
    np.testing.assert_array_equal(after.counts, before.counts)


def test_without_answers_the_averaged_statistics_stay():
    network = UNet(width=4)
    layout = layout_of(network)
    params = layout.read(network)
    kept = with_statistics(params, layout, replies_of())
    np.testing.assert_array_equal(kept.values, params.values)


class Tracking(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm2d(2, track_running_stats=True)


def test_networks_without_batch_norm_are_refused():
    for network, words in (
        (UNet(width=4, norm="group"), "keeps no running statistics"),
        (Tracking(), "found norm: InstanceNorm2d"),
    ):
        with pytest.raises(RecipeError, match=words):
            check_norms(network, layout_of(network))
    network = UNet(width=4)
    check_norms(network, layout_of(network))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("elements", lambda values: values[:-1]),
        ("elements", lambda values: [float(value) for value in values]),
        ("mean", lambda values: [*values, 0.0]),
        ("mean", lambda values: [float("nan"), *values[1:]]),
        ("variance", lambda values: [-1.0, *values[1:]]),
        ("variance", lambda values: "many"),
        ("variance", lambda values: [True, *values[1:]]),
    ],
)
def test_anything_else_is_refused_on_the_wire(name, change):
    network = UNet(width=4)
    layout = layout_of(network)
    numbers = measure(network, layout, [images(2)])
    check_reply(replies_of(numbers)[0], Wire(), layout, 1)
    with pytest.raises(WireError, match=name):
        check_reply(replies_of({**numbers, name: change(numbers[name])})[0], Wire(), layout, 1)
