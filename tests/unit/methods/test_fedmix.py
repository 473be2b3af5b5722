"""FedMix: invariants of the method, weights by loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from feda3i.methods.fedmix import mixed_weights
from stepping import Steps, unequal

CASES = np.array([10.0, 30.0, 20.0])
positive = st.floats(1e-3, 1.0)


@given(arrays(float, 5, elements=positive), st.floats(0, 4), st.floats(0, 20))
def test_weights_sum_to_one_and_know_no_unit_of_loss(loss, beta, lam):
    cases = np.arange(1.0, 6.0)
    found = mixed_weights(cases, loss, beta, lam)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert (found >= 0).all()
    assert mixed_weights(cases, 2 * loss, beta, lam) == pytest.approx(found, abs=1e-12)
    naive = loss**beta / (loss**beta).sum()
    assert found == pytest.approx((cases / 15 + lam * naive) / (1 + lam), abs=1e-9)


@pytest.mark.parametrize("exponent", [2.5, -2.5])
@pytest.mark.parametrize("loss", [[0.0, 0.0, 0.0], [0.0, 0.4, 0.2], [1e-300, 1.0, 1e300]])
def test_weights_are_finite_for_any_loss(loss, exponent):
    found = mixed_weights(CASES, np.array(loss), exponent, 10.0)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)
    if not any(loss):
        np.testing.assert_array_equal(found, CASES / 60)


def test_a_round_weighs_by_the_reported_losses(tmp_path):
    steps = Steps(tmp_path, "fedmix", {"beta": 1.5}, unequal())
    event = steps.play()
    loss = np.array([event["site_loss"][name] for name in steps.federation.names()])
    expected = mixed_weights(np.array([4.0, 3.0, 2.0]), loss, 1.5, 10.0)
    assert list(event["weights"].values()) == pytest.approx(expected, abs=1e-12)
    assert expected != pytest.approx([4 / 9, 3 / 9, 2 / 9], abs=1e-3)
