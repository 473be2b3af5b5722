"""GCE: FedAvg with another loss."""

import numpy as np
import pytest
import torch
from at_site import PLAIN, final_values

from feda3i import losses
from feda3i.errors import RecipeError
from feda3i.methods.base import make_method


def test_defaults_are_those_of_the_comparison():
    method = make_method("gce", {})
    assert method.q == 0.7


def test_criterion_is_the_loss_with_its_option():
    method = make_method("gce", {"q": 0.4})
    logits, targets = torch.randn(2, 1, 4, 4), torch.ones(2, 1, 4, 4)
    expected = losses.gce(logits, targets, 0.4)
    assert method.criterion(logits, targets) == expected


@pytest.mark.parametrize("options", [{"q": 0}, {"q": -0.1}, {"q": 1.01}, {"q": float("nan")}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(RecipeError, match=next(iter(options))):
        make_method("gce", options)


def test_a_loss_that_is_not_its_own_is_refused():
    with pytest.raises(RecipeError, match="loss"):
        make_method("gce", {"loss": "dc"})


def test_small_q_is_fedavg():
    # Without BatchNorm: convolutions before it have a bias without gradient, which Adam moves by
    # rounding errors alone.
    model = {"name": PLAIN}
    ours = final_values("gce", options={"q": 1e-6}, model=model)
    np.testing.assert_allclose(ours, final_values("fedavg", model=model), rtol=0, atol=1e-6)
    assert np.abs(ours - final_values("gce", model=model)).max() > 1e-4
