"""Stages of networks that are built in every awkward way."""

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from feda3i.errors import RecipeError
from feda3i.models.stages import find_stages
from feda3i.models.unet import UNet

X = torch.zeros(2, 1, 8, 8)


def conv(enter=1, leave=1):
    return nn.Conv2d(enter, leave, 1)


def names(model, x=X):
    stages = find_stages(model, x)
    held = [key for stage in stages for key in stage.keys]
    assert sorted(held) == sorted(model.state_dict()), "every key exactly once"
    return [stage.name for stage in stages]


class Net(nn.Module):
    """Modules and tensors by name, used as a function says."""

    def __init__(self, use, **parts):
        super().__init__()
        self.use = use
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.use(self, x)


def backwards():
    """Return children defined in another order than used; a list, a dictionary, an unused head."""

    def use(net, x):
        x = net.lists[1](net.first(x))
        return net.last(net.dictionary["a"](net.lists[0](x))) + net.shift

    return Net(
        use,
        **{"last": conv(), "auxiliary": conv(), "lists": nn.ModuleList([conv(), conv()])},
        dictionary=nn.ModuleDict({"a": conv()}),
        first=nn.Sequential(conv(), nn.BatchNorm2d(1)),
        shift=nn.Parameter(torch.zeros(1)),
    )


def test_children_in_order_of_use_and_lists_stand_for_their_members():
    model = backwards()
    assert names(model) == ["first", "lists.1", "lists.0", "dictionary.a", "last"]
    by_name = {stage.name: stage.keys for stage in find_stages(model, X)}
    # never called: joins the one defined before; own tensors come first in the state dict
    joined = {"shift", "last.weight", "last.bias", "auxiliary.weight", "auxiliary.bias"}
    assert set(by_name["last"]) == joined
    assert "first.1.num_batches_tracked" in by_name["first"]


def test_own_stages_win_and_must_cover_everything():
    assert names(UNet(channels=1, width=2), torch.zeros(1, 1, 16, 16)) == list(UNet.stages)
    assert [stage.name for stage in find_stages(UNet(width=2))] == list(UNet.stages)
    model = backwards()
    model.stages = whole = ("first", "auxiliary", "lists", "dictionary", "last", "shift")
    assert names(model) == list(whole)
    middle = ("lists.1", "dictionary", "lists.0")
    model.stages = {"enter": ("first", "shift"), "middle": middle, "leave": ("last", "auxiliary")}
    assert names(model) == ["enter", "middle", "leave"]
    wrong = {
        "'auxiliary.weight' is in none of": (whole[0], *whole[2:]),
        "more than one": (*whole, "first.0"),
        "'firts' holds no tensor, did you mean 'first'": ("firts", *whole),
        "distinct names": ("first", "first"),
    }
    for message, model.stages in wrong.items():
        with pytest.raises(RecipeError, match=message):
            find_stages(model, X)


def wrapped(inner):
    return nn.Sequential(OrderedDict(model=inner))


def test_wrapped_networks_fall_back_to_modules_with_tensors():
    # A module with children that also holds a tensor, like SwinUNETR's attention.
    table = nn.Parameter(torch.zeros(1))
    biased = Net(lambda net, x: net.inner(x) + net.table, inner=conv(), table=table)
    model = wrapped(nn.Sequential(conv(), nn.Sequential(nn.BatchNorm2d(1), biased)))
    assert names(model) == ["model.0", "model.1.0", "model.1.1", "model.1.1.inner"]

    def use(net, x):  # never calls the output projection of its attention as a module
        h = net.enter(x[:, 0])
        return net.leave(net.attention(h, h, h)[0])[:, None]

    middle = nn.MultiheadAttention(4, 1, batch_first=True)
    model = wrapped(Net(use, enter=nn.Linear(8, 4), attention=middle, leave=nn.Linear(4, 8)))
    assert names(model) == ["model.enter", "model.attention", "model.leave"]


def test_a_wrapped_network_is_divided_where_its_resolution_changes():
    def unit(enter, leave, stride=1):
        layers = nn.Conv2d(enter, leave, 3, stride, 1), nn.BatchNorm2d(leave), nn.PReLU()
        return nn.Sequential(*layers)

    up = nn.ConvTranspose2d(4, 4, 2, stride=2)
    down = nn.Sequential(unit(1, 2), unit(2, 2), unit(2, 4, stride=2), unit(4, 4))
    first = nn.Sequential(nn.BatchNorm2d(1), *unit(1, 2), *unit(2, 2), conv(2))
    assert names(first) == ["1", "4", "7"]  # norms and slopes are no stages of their own
    model = wrapped(nn.Sequential(down, up, nn.PReLU(), unit(4, 2), conv(2)))
    assert names(model) == ["model.0.0.0", "model.0.2.0", "model.1"]
    last = {stage.name: stage.keys for stage in find_stages(model, X)}["model.1"]
    assert {"model.2.weight", "model.3.2.weight", "model.4.weight"} <= set(last)


def test_tied_tensors_stay_together_where_first_used():
    middle = conv()
    use = lambda net, x: net.out(net.again(net.middle(net.enter(x))))
    tied = Net(use, out=conv(), middle=middle, enter=conv(), again=middle)
    tied.out.weight = tied.enter.weight
    stages = find_stages(tied, X)
    assert {stage.name: set(stage.keys) for stage in stages} == {
        "enter": {"enter.weight", "enter.bias", "out.weight"},
        "middle": {"middle.weight", "middle.bias", "again.weight", "again.bias"},
        "out": {"out.bias"},
    }


class Restless(nn.Module):
    """Draws random numbers and changes a buffer even in eval mode."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(), nn.BatchNorm2d(1), conv()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.c(self.b(F.dropout(self.a(x), 0.5, training=True)))


@pytest.mark.parametrize("fails", [False, True])
def test_mode_buffers_and_random_state_are_restored(fails):
    model = Restless().train()
    model.b.eval()
    torch.manual_seed(3)
    random = torch.get_rng_state()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    if fails:
        with pytest.raises(RecipeError, match=r"cannot process images of shape \(2, 5, 8, 8\)"):
            find_stages(model, torch.zeros(2, 5, 8, 8))
    else:
        assert names(model) == ["a", "b", "c"]
    assert model.training
    assert not model.b.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(not module._forward_pre_hooks for module in model.modules())


def test_networks_without_stages_are_refused_with_a_way_out():
    weights = nn.ParameterList([torch.ones(1, 1, 1, 1) for _ in range(2)])
    use = lambda net, x: F.conv2d(F.conv2d(x, net.weights[0]), net.weights[1])
    functional = Net(use, weights=weights)
    for model, example, message in [
        (functional, X, "set its attribute stages"),
        (functional, None, "give an example input"),
        (nn.ReLU(), X, "nothing to train"),
    ]:
        with pytest.raises(RecipeError, match=message):
            find_stages(model, example)
