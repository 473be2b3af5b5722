"""NR-Dice: FedAvg with another loss."""

import numpy as np
import pytest
import torch
from at_site import PLAIN, final_values

from feda3i import losses
from feda3i.errors import RecipeError
from feda3i.methods.base import make_method

DICE_METHOD = """
import torch
from feda3i.methods.base import Method

class Dice(Method):
    def criterion(self, logits, targets):
        p = torch.sigmoid(logits)
        return 1 - 2 * (p * targets).sum() / ((p**2).sum() + (targets**2).sum())
"""


def test_defaults_are_those_of_the_comparison():
    method = make_method("NR-Dice", {})
    assert method.gamma == 1.5


def test_criterion_is_the_loss_with_its_option():
    method = make_method("nr_dice", {"gamma": 1.2})
    logits, targets = torch.randn(2, 1, 4, 4), (torch.rand(2, 1, 4, 4) < 0.5).float()
    assert method.criterion(logits, targets) == losses.nr_dice(logits, targets, 1.2)


@pytest.mark.parametrize("options", [{"gamma": 0.99}, {"gamma": 2.01}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(RecipeError, match=next(iter(options))):
        make_method("nr-dice", options)


def test_gamma_two_is_fedavg_with_a_dice_loss(tmp_path):
    file = tmp_path / "dice.py"
    file.write_text(DICE_METHOD)
    model = {"name": PLAIN}
    ours = final_values("nr-dice", options={"gamma": 2.0}, model=model)
    np.testing.assert_allclose(ours, final_values(f"{file}:Dice", model=model), rtol=0, atol=1e-5)
