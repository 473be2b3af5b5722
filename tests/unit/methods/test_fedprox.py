"""FedProx: a pull towards the received network."""

import numpy as np
from at_site import site_of


def moved(folder, mu, **train):
    """Return by how much one site's fit changes the trained values."""
    site = site_of(folder, "fedprox", mu=mu, train=train)
    received = site.received.values
    site.method.fit(site)
    return (site.layout.read(site.network).values - received)[site.layout.trained()]


def test_the_first_step_is_that_of_fedavg(tmp_path):
    # All four cases in one batch and one epoch: one step from w = w_g, where the penalty is flat.
    plain, ours = (moved(tmp_path, mu, batch=4) for mu in (0, 10.0))
    np.testing.assert_array_equal(ours, plain)


def test_a_larger_mu_stays_nearer(tmp_path):
    far, near, nearest = (np.linalg.norm(moved(tmp_path, mu, epochs=3)) for mu in (0, 1.0, 10.0))
    assert far > near > nearest > 0
