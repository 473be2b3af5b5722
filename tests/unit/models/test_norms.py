"""The U-Net with other normalisations than BatchNorm."""

import pytest
import torch
from torch import nn

from feda3i import models
from feda3i.errors import RecipeError
from feda3i.models.unet import UNet


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


def test_other_names_are_refused():
    with pytest.raises(RecipeError, match="unet norm: expected one of batch, group, instance"):
        models.build("unet", channels=1, classes=1, shape=(32, 32), options={"norm": "grup"})
