"""The optimiser section: schedules, optimisers, clipping; and a share of the sites per round."""

import math

import pytest
import torch
from torch import nn

from feda3i.core.stepper import Stepper
from feda3i.core.training import Training, rate_factor
from feda3i.recipe import load
from feda3i.testing import Subject
from stepping import Steps

CPU = torch.device("cpu")


def test_poly_and_cosine_are_torch_s_and_never_reach_zero():
    assert {rate_factor("constant", 0, t, 10) for t in range(1, 11)} == {1.0}
    kinds = {"poly": ("PolynomialLR", 7, 0.9), "cosine": ("CosineAnnealingLR", 7)}
    for name, (kind, *options) in kinds.items():
        optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = getattr(torch.optim.lr_scheduler, kind)(optimiser, *options)
        for t in range(1, 8):
            factor = rate_factor(name, 0, t, 7)
            assert factor == pytest.approx(optimiser.param_groups[0]["lr"])
            assert factor > 0
            optimiser.step()
            scheduler.step()


def test_warm_up_rises_then_the_schedule_falls_over_the_rest():
    factors = [rate_factor("cosine", 3, t, 8) for t in range(1, 9)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[5] == pytest.approx(0.5 * (1 + math.cos(math.pi * 2 / 5)))
    only = [rate_factor("poly", 9, t, 3) for t in (1, 2, 3)]  # a warm-up longer than the run
    assert only == [0.1, 0.2, 0.3]
    training = Training(lr=0.1, schedule="poly")
    assert training.in_round(1, 10) is training
    assert training.in_round(6, 10).lr == pytest.approx(0.1 * 0.5**0.9)


SGD = {"momentum": 0.5, "weight_decay": 0.1}
DECAY = {"weight_decay": 0.1}


@pytest.mark.parametrize(
    ("settings", "kind", "given"),
    [
        ({}, "Adam", {"betas": (0.9, 0.99)}),
        (DECAY, "Adam", {"betas": (0.9, 0.99), **DECAY}),
        ({"optimiser": "adamw", **DECAY}, "AdamW", {"betas": (0.9, 0.99), **DECAY}),
        ({"optimiser": "sgd", **SGD}, "SGD", SGD),
    ],
)
def test_steps_are_those_of_torch_s_optimisers(settings, kind, given):
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    stepper = Stepper(ours, Training(lr=0.01, **settings), CPU)
    optimiser = getattr(torch.optim, kind)(theirs.parameters(), lr=0.01, **given)
    for _ in range(3):
        x = torch.randn(4, 3)
        stepper.take(ours(x).square().sum())
        optimiser.zero_grad()
        theirs(x).square().sum().backward()
        optimiser.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_clipping_bounds_the_norm_of_a_step():
    layer = nn.Linear(3, 2)
    before = [w.detach().clone() for w in layer.parameters()]
    stepper = Stepper(layer, Training(lr=1.0, optimiser="sgd", momentum=0, clip=0.25), CPU)
    stepper.take(1000 * layer(torch.ones(1, 3)).square().sum())
    moved = [a.detach() - b for a, b in zip(layer.parameters(), before, strict=True)]
    assert float(torch.cat([m.flatten() for m in moved]).norm()) == pytest.approx(0.25, rel=1e-4)


def test_new_keys_leave_hashes_of_older_recipes_alone():
    plain = load("demo")
    assert set(plain.to_dict()["train"]) == {"epochs", "batch", "lr", "betas"}
    assert load("demo", ["train.schedule=poly"]).digest() != plain.digest()


def steps_with(folder, name, options, fraction):
    given = Subject(name, options).recipe(
        3, engine={"workers": 1, "fraction": fraction, "min_sites": 1}
    )
    return Steps(folder, name, given=given)


def test_a_share_of_the_sites_trains_and_all_answer_the_survey(tmp_path):
    steps = steps_with(tmp_path, "feda3i", {"t1": 2}, 0.5)
    asked = lambda orders, task: tuple(order.site for order in orders if order.task == task)
    rounds = []
    for _ in range(3):
        steps.transport.orders.clear()
        event = steps.play()
        rounds.append(asked(steps.transport.orders, "fit"))
        assert event["asked"] == event["answered"] == len(rounds[-1]) == 2  # of three, rounded up
        surveyed = asked(steps.transport.orders, "survey")
        assert surveyed == (("site-1", "site-2", "site-3") if steps.round == 3 else ())
    assert len(set(rounds)) > 1
    named = steps_with(tmp_path / "named", "fedcorr", {"t1": 1, "t2": 1}, 0.4)
    assert named.play()["asked"] == 3, "who trains is named by the method"
