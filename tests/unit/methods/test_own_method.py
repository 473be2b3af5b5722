"""The example of a method outside the package works by its path and keeps every promise."""

from pathlib import Path

import numpy as np
import pytest

from feda3i.errors import RecipeError
from feda3i.methods.base import make_method
from feda3i.testing import check_method
from stepping import GATHERED, Steps, played, unequal

OWN = f"{Path(__file__).parents[3] / 'examples' / 'own_method.py'}:MyMethod"


def test_agreement_and_cases_make_the_weights(tmp_path):
    steps = Steps(tmp_path, OWN, {"power": 2}, unequal(), epochs=3, lr=0.02)
    event = steps.play(2)
    site = steps.site("site-1")
    agreement = steps.method.fit(site)["agreement"]
    predicted = np.concatenate([(logits > 0).numpy() for _, logits in site.predict()])
    masks = site.given_masks()[:, None] > 0
    dice = 2 * (predicted & masks).sum() / (predicted.sum() + masks.sum())
    assert agreement == pytest.approx(dice, abs=1e-6)
    assert sum(event["weights"].values()) == pytest.approx(1)


def test_without_power_it_is_fedavg(tmp_path):
    found = played(tmp_path / "own", OWN, {"power": 0}, unequal())
    np.testing.assert_array_equal(found, played(tmp_path / "avg", GATHERED, None, unequal()))


def test_a_hook_that_nothing_calls_is_refused(tmp_path):
    text = "from feda3i.extend import Method\nclass Old(Method):\n    def act(self, site): pass\n"
    (tmp_path / "old.py").write_text(text)
    with pytest.raises(RecipeError, match="defines act, a hook of 0"):
        make_method(f"{tmp_path / 'old.py'}:Old", {})


@pytest.mark.slow
def test_it_keeps_every_promise():
    assert not any(check_method(OWN).values())
