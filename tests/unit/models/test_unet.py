"""The paper's U-Net: sizes, parameters, scaling, dropout, norms."""

import copy

import pytest
import torch
from torch import nn

from feda3i.errors import RecipeError
from feda3i.models.unet import UNet, normalised

COUNTS = [2832, 14016, 55680, 221952, 295680, 369216, 92448, 23184, 7008, 17]


def test_parameters_of_each_stage_are_those_of_the_paper():
    net = UNet(channels=3)
    count = lambda module: sum(parameter.numel() for parameter in module.parameters())
    assert [count(getattr(net, name)) for name in net.stages] == COUNTS
    assert (count(net), count(UNet(channels=1))) == (1_082_033, 1_081_745)
    narrow = UNet(channels=3, width=8)  # the width scales every stage
    assert narrow.inc[0].out_channels == narrow.outc.in_channels == 8
    assert narrow.up1.block[0].in_channels == 128


@pytest.mark.parametrize("shape", [(16, 16), (17, 31), (48, 33), (97, 64), (16, 17, 20)])
def test_any_size_from_16_keeps_its_size(shape):
    out = UNet(1, 2, width=2, dimensions=len(shape))(torch.rand(2, 1, *shape) * 255)
    assert out.shape == (2, 2, *shape)
    assert torch.isfinite(out).all()


def test_normalised_input_is_the_paper_network_on_scaled_images():
    paper, ours = UNet(width=2, input="paper"), UNet(width=2)
    ours.load_state_dict(paper.state_dict())
    x = torch.rand(2, 3, 32, 32) * 255
    torch.testing.assert_close(ours.eval()(x), paper.eval()((x - 128) / 64))
    assert not torch.allclose(ours(x), paper(x))
    torch.testing.assert_close(normalised(paper)(x), ours(x))
    torch.testing.assert_close(copy.deepcopy(paper)(x), ours(x))  # the hook survives a copy


def test_dropout_is_off_by_default_leaves_no_trace_and_keeps_the_mean():
    net = UNet(width=4)
    x, rates = torch.rand(2, 3, 32, 32) * 255, (0.05, 0.1, 0.2, 0.3, 0.5)
    names, plain, drops = list(net.state_dict()), net(x), []
    for _ in range(2):
        with net.encoder_dropout(rates, torch.Generator().manual_seed(1)):
            drops.append(net(x))
            assert list(net.state_dict()) == names
    assert torch.equal(*drops)
    assert not torch.allclose(drops[0], plain)
    assert torch.equal(net(x), plain)
    expected = net.eval()(x)
    with net.encoder_dropout(rates):
        assert torch.equal(net(x), expected)  # never at test time
    with net.train().encoder_dropout((0.3, 0, 0, 0, 0), torch.Generator().manual_seed(0)):
        dropped = net._drop(0, torch.ones(100_000))
    assert abs((dropped == 0).float().mean().item() - 0.3) < 0.01
    assert abs(dropped.mean().item() - 1.0) < 0.01
    with pytest.raises(RecipeError, match="five rates"), net.encoder_dropout((0.5,)):
        pass


WRONG = [{"width": 0}, {"width": 1.5}, {"channels": -1}, {"momentum": 0}, {"dimensions": 4}]


@pytest.mark.parametrize("wrong", [*WRONG, {"input": "normalized"}, {"norm": "grup"}], ids=str)
def test_wrong_options_say_what_is_expected(wrong):
    with pytest.raises(RecipeError, match="expected"):
        UNet(**wrong)


@pytest.mark.parametrize(("norm", "dimensions"), [("group", 2), ("instance", 3)])
def test_a_case_does_not_depend_on_its_batch(norm, dimensions):
    network = UNet(channels=1, width=4, norm=norm, dimensions=dimensions)
    images = 255 * torch.rand((3, 1, *[32] * dimensions))
    for mode in (True, False):
        network.train(mode)
        together, alone = network(images), network(images[1:2])
        torch.testing.assert_close(together[1:2], alone, rtol=1e-4, atol=1e-5)


def test_norms_keep_running_statistics_only_if_of_the_batch():
    batch = UNet(width=6, momentum=0.3)
    layers = [m for m in batch.modules() if hasattr(m, "running_mean")]
    assert [layer.momentum for layer in layers] == [0.3] * 18
    named = list(dict(batch.named_parameters()))
    for norm, kind in (("group", nn.GroupNorm), ("instance", nn.InstanceNorm2d)):
        network = UNet(width=6, norm=norm)  # eight groups do not divide six channels: two do
        assert sum(isinstance(m, kind) for m in network.modules()) == 18
        assert not list(network.buffers())
        assert list(dict(network.named_parameters())) == named
    groups = [m.num_groups for m in UNet(norm="group").modules() if isinstance(m, nn.GroupNorm)]
    assert set(groups) == {8}
