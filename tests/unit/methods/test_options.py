"""Options of every method: ranges, settings that are FedAvg, and own losses."""

import numpy as np
import pytest
import torch
from at_site import final_values

from feda3i import losses
from feda3i.errors import RecipeError
from feda3i.methods.base import make_method

WRONG = {
    "adele": {
        **{"tau": (0.49, 1.01), "rho": (-0.1, 1.1), "r": (0, 1.1), "lam": (-1,), "points": (1,)},
        "scales": ([], [0.0, 1.0]),
    },
    "elr": {"beta": (1, -0.1), "lam": (-1,)},
    "feda3i": {"t1": (0,), "r": (-0.1, 1.5), "power": (0,)},
    "fedcorr": {**{"t1": (-1,), "beta": (-1,), "pi": (1.5,), "theta": (0.4, 1.1), "kappa": (2,)}},
    "feddm": {"ratio": (1.0, -0.1), "stop": (0,), "probes": (0,)},
    "fedmix": {"lam": (-1, "much"), "beta": (-0.1, float("nan"))},
    "fednoro": {"s1": (0,), "a": (-0.1, 1.1), "end": (0,)},
    "fedprox": {"mu": (-0.01, float("nan"), float("inf"))},
    "gce": {"q": (0, 1.01, float("nan")), "loss": ("dc",)},
    "nr-dice": {"gamma": (0.99, 2.01)},
    "rmd": {
        **{"t1": (0,), "mu": (-0.1, 1.1), "tau": (-0.1, 1.0), "weight": (-1,), "loss": ("dc",)},
        "dropout": ([0.1] * 4, [0, 0, 0, 0, 1]),
    },
    "sce": {"alpha": (-1,), "beta": (-0.1, float("inf")), "clamp": (0, 0.5)},
}


@pytest.mark.parametrize("name", WRONG)
def test_options_out_of_range_are_refused(name):
    for option, values in WRONG[name].items():
        for value in values:
            with pytest.raises(RecipeError, match=option):
                make_method(name, {option: value})


NEUTRAL = [
    ("adele", {"scales": [1.0], "lam": 0, "tau": 1}),
    ("adele", {"scales": [1.0], "rho": 1, "tau": 1}),  # one scale agrees with itself
    ("elr", {"lam": 0}),
    ("elr", {"lam": 0, "loss": "dc"}),
    ("fednoro", {"s1": 5}),
    ("fedprox", {"mu": 0}),
    ("fedprox", {"mu": 0, "loss": "dc"}),
    ("fedselect", {"ratio": 1, "rho": 1, "replace": False}),
    ("iopfl", {"alpha": 0.5}),
    ("sce", {"alpha": 1.0, "beta": 0.0}),
]


@pytest.mark.parametrize(("name", "options"), NEUTRAL, ids=str)
def test_a_neutral_setting_is_fedavg_bit_for_bit(name, options):
    """Sites have unequal numbers of cases, and one of them draws everything inside out."""
    plain = {"loss": options["loss"]} if "loss" in options else {}
    np.testing.assert_array_equal(final_values(name, options), final_values("fedavg", plain))


OWN_LOSS = {"gce": {"q": 0.4}, "nr_dice": {"gamma": 1.2}}
OWN_LOSS["sce"] = {"alpha": 0.1, "beta": 2, "clamp": 1e-4}


@pytest.mark.parametrize(("name", "options"), OWN_LOSS.items())
def test_the_criterion_is_the_loss_with_its_options(name, options):
    logits, targets = torch.randn(2, 1, 4, 4), (torch.rand(2, 1, 4, 4) < 0.5).float()
    expected = getattr(losses, name)(logits, targets, **options)
    assert make_method(name, options).criterion(logits, targets) == expected
