"""Training in lower precision on the CPU."""

import numpy as np
import pytest
import torch

from feda3i.core.stepper import Stepper
from feda3i.core.training import Training
from feda3i.testing import Subject, outcome_of, tiny_federation


def test_bfloat16_trains_and_repeats():
    train = {"epochs": 1, "batch": 2}
    recipe = Subject("fedavg", {}).recipe(rounds=1, train=train)
    low = Subject("fedavg", {}).recipe(rounds=1, train={**train, "precision": "bfloat16"})
    federation = tiny_federation(sites=1, cases=2)
    first, again, full = (outcome_of(r, federation).params.values for r in (low, low, recipe))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, full)
    assert np.isfinite(first).all()


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_answers_and_weights_stay_float32(precision):
    # A drawn layer may overflow float16 at the first step, which the scaler then leaves out.
    layer = torch.nn.Conv2d(1, 1, 3, bias=False)
    torch.nn.init.constant_(layer.weight, 0.1)
    before = layer.weight.detach().clone()
    stepper = Stepper(layer, Training(precision=precision, clip=1.0), torch.device("cpu"))
    with stepper.precision():
        answer = layer(torch.rand(1, 1, 8, 8))
        assert answer.dtype == torch.float32
    stepper.take(answer.square().mean())
    assert layer.weight.dtype == torch.float32
    assert not torch.equal(layer.weight, before)
    assert not layer._forward_hooks
