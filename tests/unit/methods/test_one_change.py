"""Methods of one change: ELR's memory, FedProx's pull, IOP-FL's average over time."""

import numpy as np
import pytest
import torch
from at_site import site_of

from feda3i import losses
from feda3i.core.messages import Params
from feda3i.methods.iopfl import IOPFL


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


def moved(folder, mu, **train):
    """Return by how much one site's fit changes the trained values."""
    site = site_of(folder, "fedprox", mu=mu, train=train)
    received = site.received.values
    site.method.fit(site)
    return (site.layout.read(site.network).values - received)[site.layout.trained()]


def test_the_first_step_is_that_of_fedavg_and_a_larger_mu_stays_nearer(tmp_path):
    # All four cases in one batch and one epoch: one step from w = w_g, where the penalty is flat.
    plain, ours = (moved(tmp_path, mu, batch=4) for mu in (0, 10.0))
    np.testing.assert_array_equal(ours, plain)
    far, near, nearest = (np.linalg.norm(moved(tmp_path, mu, epochs=3)) for mu in (0, 1.0, 10.0))
    assert far > near > nearest > 0


@pytest.mark.parametrize(("alpha", "expected"), [(0.9, 1.39), (0.1, 3.79), (0.0, 4.0), (1.0, 1.0)])
def test_a_personal_model_is_an_average_over_time(alpha, expected):
    first, *later = (Params(np.array([value]), np.array([7])) for value in (1.0, 2.0, 4.0))
    personal = IOPFL(alpha=alpha).moved(first, first)
    for trained in later:
        personal = IOPFL(alpha=alpha).moved(personal, trained)
    assert personal.values[0] == pytest.approx(expected)
