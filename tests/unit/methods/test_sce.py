"""SCE: FedAvg with another loss."""

import pytest
import torch
from at_site import assert_equals_fedavg

from feda3i import losses
from feda3i.errors import RecipeError
from feda3i.methods.base import make_method


def test_defaults_are_those_of_the_comparison():
    method = make_method("sce", {})
    assert (method.alpha, method.beta, method.clamp) == (0.5, 1.0, 1e-5)


def test_criterion_is_the_loss_with_its_options():
    method = make_method("sce", {"alpha": 0.1, "beta": 2, "clamp": 1e-4})
    logits, targets = torch.randn(2, 1, 4, 4), torch.ones(2, 1, 4, 4)
    assert method.criterion(logits, targets) == losses.sce(logits, targets, 0.1, 2.0, 1e-4)


@pytest.mark.parametrize(
    "options",
    [{"alpha": -1}, {"beta": -0.1}, {"beta": float("inf")}, {"clamp": 0}, {"clamp": 0.5}],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(RecipeError, match=next(iter(options))):
        make_method("sce", options)


def test_without_the_reverse_term_it_is_fedavg_bit_for_bit():
    assert_equals_fedavg("sce", {"alpha": 1.0, "beta": 0.0})
