"""FedAvgM and FedAdam against their formulas, round by round, and against torch's optimisers."""

import numpy as np
import pytest
import torch

from stepping import Steps


def updates(steps, rounds):
    """Play rounds; return what the sites' average proposed and where the server went."""
    seen = []
    merge = type(steps.method).__mro__[1].merge

    def watched(self, server, replies, gathered):
        mean = merge(self, server, replies, gathered)
        seen.append((server.params.values.copy(), mean.values.copy()))
        return mean

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(steps.method).__mro__[1], "merge", watched)
        for _ in range(rounds):
            steps.play()
            seen[-1] = (*seen[-1], steps.values.copy())
    return seen


def test_fedavgm_is_sgd_with_momentum_on_the_average_update(tmp_path):
    steps = Steps(tmp_path, "fedavgm", {"beta": 0.8, "lr": 0.5})
    is_trained = steps.server.layout.trained()
    weights = torch.from_numpy(steps.values[is_trained].copy()).requires_grad_()
    reference = torch.optim.SGD([weights], lr=0.5, momentum=0.8)
    for before, mean, after in updates(steps, 3):
        weights.grad = torch.from_numpy((before - mean)[is_trained])
        reference.step()
        np.testing.assert_allclose(after[is_trained], weights.detach().numpy(), rtol=0, atol=1e-6)
        np.testing.assert_array_equal(after[~is_trained], mean[~is_trained])


def test_fedadam_follows_the_paper(tmp_path):
    options = {"lr": 0.02, "beta1": 0.7, "beta2": 0.9, "tau": 0.01}
    steps = Steps(tmp_path, "fedadam", options)
    is_trained = steps.server.layout.trained()
    m, v = 0.0, 0.01**2
    for before, mean, after in updates(steps, 3):
        d = (mean - before)[is_trained].astype(np.float64)
        m, v = 0.7 * m + 0.3 * d, 0.9 * v + 0.1 * d**2
        expected = before[is_trained] + 0.02 * m / (np.sqrt(v) + 0.01)
        np.testing.assert_allclose(after[is_trained], expected, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(after[~is_trained], mean[~is_trained])
