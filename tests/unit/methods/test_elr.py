"""ELR: the memory of early predictions."""

import numpy as np
import torch
from at_site import site_of

from feda3i import losses


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
