"""FedProx: a pull towards the received network."""

import numpy as np
import torch
from at_site import site_of

from feda3i.methods.fedprox import squared_distance


def trained(folder, mu, epochs=1, batch=4):
    """Return the received, the trained and the buffer values of one site's fit."""
    train = {"epochs": epochs, "batch": batch}
    site = site_of(folder, "fedprox", mu=mu, train=train)
    received = site.received.values
    site.method.fit(site)
    return received, site.layout.read(site.network).values, site.layout.trained()


def test_the_gradient_of_the_penalty_is_the_distance():
    weights = [torch.randn(3, 2, requires_grad=True), torch.randn(4, requires_grad=True)]
    anchor = [torch.randn(3, 2), torch.randn(4)]
    mu = 0.3
    gradients = torch.autograd.grad(0.5 * mu * squared_distance(weights, anchor), weights)
    for gradient, w, g in zip(gradients, weights, anchor, strict=True):
        torch.testing.assert_close(gradient, mu * (w - g))


def test_the_first_step_is_that_of_fedavg(tmp_path):
    # All four cases in one batch and one epoch: one step from w = w_g, where the penalty is flat.
    _, plain, _ = trained(tmp_path, mu=0)
    _, ours, _ = trained(tmp_path, mu=10.0)
    np.testing.assert_array_equal(ours, plain)


def test_a_larger_mu_stays_nearer(tmp_path):
    distances = []
    for mu in (0, 1.0, 10.0):
        received, ours, is_trained = trained(tmp_path, mu, epochs=3, batch=2)
        distances.append(np.linalg.norm((ours - received)[is_trained]))
    assert distances[0] > distances[1] > distances[2] > 0
