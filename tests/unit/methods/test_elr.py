"""ELR: the memory of early predictions."""

import numpy as np
import pytest
import torch
from at_site import assert_equals_fedavg, final_values, site_of

from feda3i import losses
from feda3i.errors import RecipeError
from feda3i.methods.base import make_method
from feda3i.testing import tiny_federation


def test_defaults_are_those_of_the_comparison():
    method = make_method("elr", {})
    assert (method.beta, method.lam) == (0.99, 1.0)


@pytest.mark.parametrize("options", [{"beta": 1}, {"beta": -0.1}, {"lam": -1}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(RecipeError, match=next(iter(options))):
        make_method("elr", options)


@pytest.mark.parametrize("loss", ["ce", "dc"])
def test_lambda_zero_is_fedavg_bit_for_bit(loss):
    ours = final_values("elr", options={"lam": 0, "loss": loss})
    np.testing.assert_array_equal(ours, final_values("fedavg", options={"loss": loss}))


def test_the_default_is_not_fedavg():
    with pytest.raises(AssertionError):
        assert_equals_fedavg("elr", {})


def test_first_visit_at_one_half(tmp_path):
    site = site_of(tmp_path, "elr")
    logits = torch.zeros(2, 1, 32, 32)
    t1, total = site.method.remember(site, site.batch(np.array([2, 0])), logits)
    np.testing.assert_allclose(t1.numpy(), 0.005, atol=1e-8)
    np.testing.assert_allclose((total - t1).numpy(), 0.005, atol=1e-8)
    value = losses.early_learning(logits, t1, total)
    assert value.item() == pytest.approx(-0.0050125, abs=1e-7)


def test_only_cases_of_the_batch_are_remembered(tmp_path):
    site = site_of(tmp_path, "elr")
    batch = site.batch(np.array([3, 1]))
    logits = torch.randn(2, 1, 32, 32)
    site.method.remember(site, batch, logits)
    assert site.memory["visits"].tolist() == [0, 1, 0, 1]
    assert not site.memory["t1"][[0, 2]].any()
    p = torch.sigmoid(logits).clamp(1e-4, 1 - 1e-4).numpy()
    np.testing.assert_allclose(site.memory["t1"][[3, 1]], 0.01 * p, rtol=1e-5)


def test_constant_predictions_are_remembered_in_the_end(tmp_path):
    site = site_of(tmp_path, "elr", beta=0.9)
    batch = site.batch(np.array([0, 1]))
    logits = torch.tensor([-3.0, 0.4]).reshape(2, 1, 1, 1).expand(2, 1, 32, 32)
    for k in range(1, 301):
        t1, total = site.method.remember(site, batch, logits)
        if k in (1, 2, 10):  # t0 + t1 = 1 - beta^k, split as the constant prediction is
            expected = (1 - 0.9**k) * torch.sigmoid(logits)
            torch.testing.assert_close(t1, expected, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(total, torch.full_like(total, 1 - 0.9**k))
    torch.testing.assert_close(t1, torch.sigmoid(logits), rtol=0, atol=1e-5)


def test_the_step_is_the_formula_with_two_running_targets(tmp_path):
    site = site_of(tmp_path, "elr", beta=0.7, lam=3.0)
    batch = site.batch(np.array([0, 1]))
    site.network.train()
    t = torch.zeros(2, 2, 1, 32, 32)  # t0 and t1 by the paper's recursion
    for _ in range(3):
        loss = site.method.step(site, batch)
        logits = site.network(batch.images)
        p = torch.sigmoid(logits).clamp(1e-4, 1 - 1e-4)
        both = torch.stack([1 - p, p])
        t = 0.7 * t + 0.3 * both.detach()
        expected = losses.cross_entropy(logits, batch.masks)
        expected = expected + 3.0 * torch.log(1 - (t * both).sum(0)).mean()
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
        ours, theirs = (
            torch.autograd.grad(value, site.network.outc.weight)[0] for value in (loss, expected)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_every_epoch_visits_every_case_of_the_site(tmp_path):
    site = site_of(tmp_path, "elr", train={"epochs": 3}, federation=tiny_federation(classes=2))
    numbers = site.method.fit(site)
    assert set(numbers) == {"loss"}
    assert site.memory["visits"].tolist() == [3, 3, 3, 3]
    assert site.memory["t1"].shape == (4, 2, 32, 32)
    assert site.memory["t1"].dtype == np.float32
