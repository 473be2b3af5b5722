"""FedProx: a pull towards the received network."""

import numpy as np
from at_site import site_of


def trained(folder, mu, epochs=1, batch=4):
    """Return the received, the trained and the buffer values of one site's fit."""
    train = {"epochs": epochs, "batch": batch}
    site = site_of(folder, "fedprox", mu=mu, train=train)
    received = site.received.values
    site.method.fit(site)
    return received, site.layout.read(site.network).values, site.layout.trained()


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
