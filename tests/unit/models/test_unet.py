"""The paper's U-Net: sizes, parameters, scaling, dropout, norms."""

import copy
import re

import pytest
import torch
from torch import nn

from feda3i.commands.explain import network_card
from feda3i.errors import RecipeError
from feda3i.models.unet import UNet, normalised

COUNTS = {
    "inc": 2832,
    "down1": 14016,
    "down2": 55680,
    "down3": 221952,
    "down4": 295680,
    "up1": 369216,
    "up2": 92448,
    "up3": 23184,
    "up4": 7008,
    "outc": 17,
}


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameters_of_each_stage_are_those_of_the_paper():
    net = UNet(channels=3)
    assert {name: count(getattr(net, name)) for name in net.stages} == COUNTS
    assert count(net) == 1_082_033
    assert count(UNet(channels=1)) == 1_081_745
    card = network_card("unet", size=32, channels=3)
    assert " 1,082,033" in card
    assert re.search(r"6  up1 +\d+ +369,216   34.1 %", card)


def test_width_scales_every_stage():
    narrow = UNet(channels=3, width=8)
    assert narrow.inc[0].out_channels == 8
    assert narrow.up1.block[0].in_channels == 128
    assert narrow.outc.in_channels == 8


@pytest.mark.parametrize("shape", [(16, 16), (17, 31), (48, 33), (97, 64)])
def test_any_size_from_16_keeps_its_size(shape):
    net = UNet(channels=1, classes=2, width=2)
    out = net(torch.rand(2, 1, *shape) * 255)
    assert out.shape == (2, 2, *shape)
    assert torch.isfinite(out).all()


def test_three_dimensions():
    assert UNet(width=2, dimensions=3)(torch.zeros(2, 3, 16, 17, 20)).shape == (2, 1, 16, 17, 20)


def test_normalised_input_is_the_paper_network_on_scaled_images():
    paper, ours = UNet(width=2, input="paper"), UNet(width=2)
    ours.load_state_dict(paper.state_dict())
    x = torch.rand(2, 3, 32, 32) * 255
    torch.testing.assert_close(ours.eval()(x), paper.eval()((x - 128) / 64))
    assert not torch.allclose(ours(x), paper(x))
    torch.testing.assert_close(normalised(paper)(x), ours(x))
    torch.testing.assert_close(copy.deepcopy(paper)(x), ours(x))  # the hook survives a copy


def test_channels_last_gives_the_same_logits_in_the_same_layout():
    net = UNet(width=4).eval()
    x = torch.rand(2, 3, 40, 33) * 255
    expected = net(x)
    fast = net.to(memory_format=torch.channels_last)(
        x.contiguous(memory_format=torch.channels_last)
    )
    torch.testing.assert_close(fast, expected, rtol=1e-4, atol=1e-5)


def test_momentum_reaches_every_batch_norm():
    norms = [m for m in UNet(momentum=0.3, width=2).modules() if hasattr(m, "running_mean")]
    assert len(norms) == 18
    assert {norm.momentum for norm in norms} == {0.3}


def test_dropout_is_off_by_default_and_leaves_no_trace():
    net = UNet(width=4)
    x = torch.rand(2, 3, 32, 32) * 255
    names = list(net.state_dict())
    plain = net(x)
    rates = (0.05, 0.1, 0.2, 0.3, 0.5)
    with net.encoder_dropout(rates, torch.Generator().manual_seed(1)):
        strong = net(x)
        assert list(net.state_dict()) == names
    with net.encoder_dropout(rates, torch.Generator().manual_seed(1)):
        torch.testing.assert_close(net(x), strong, rtol=0, atol=0)
    assert not torch.allclose(strong, plain)
    torch.testing.assert_close(net(x), plain, rtol=0, atol=0)
    expected = net.eval()(x)
    with net.encoder_dropout(rates):
        torch.testing.assert_close(net(x), expected, rtol=0, atol=0)  # never at test time


def test_dropout_keeps_the_mean_and_the_rate():
    net = UNet(width=2)
    with net.encoder_dropout((0.3, 0, 0, 0, 0), torch.Generator().manual_seed(0)):
        dropped = net._drop(0, torch.ones(100_000))
    assert abs((dropped == 0).float().mean().item() - 0.3) < 0.01
    assert abs(dropped.mean().item() - 1.0) < 0.01


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0},
        {"width": 1.5},
        {"channels": -1},
        {"momentum": 0},
        {"dimensions": 4},
        {"input": "normalized"},
        {"norm": "grup"},
    ],
)
def test_wrong_options_say_what_is_expected(wrong):
    with pytest.raises(RecipeError, match="expected"):
        UNet(**wrong)


def test_wrong_dropout_rates():
    with pytest.raises(RecipeError, match="five rates"), UNet(width=2).encoder_dropout((0.5,)):
        pass


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("norm", ["group", "instance"])
def test_a_case_does_not_depend_on_its_batch(norm, dimensions):
    network = UNet(channels=1, width=4, norm=norm, dimensions=dimensions)
    images = 255 * torch.rand((3, 1, *[32] * dimensions))
    for mode in (True, False):
        network.train(mode)
        together, alone = network(images), network(images[1:2])
        torch.testing.assert_close(together[1:2], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("norm", "kind"), [("group", nn.GroupNorm), ("instance", nn.InstanceNorm2d)]
)
def test_no_running_statistics_are_kept(norm, kind):
    network = UNet(width=6, norm=norm)  # eight groups do not divide six channels: two do
    layers = [m for m in network.modules() if isinstance(m, kind)]
    assert len(layers) == 18
    assert not list(network.buffers())
    batch = UNet(width=6)
    assert [n for n, _ in network.named_parameters()] == [n for n, _ in batch.named_parameters()]


def test_group_norm_has_eight_groups_where_they_divide():
    groups = [m.num_groups for m in UNet(norm="group").modules() if isinstance(m, nn.GroupNorm)]
    assert set(groups) == {8}
