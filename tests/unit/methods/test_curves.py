"""The switch of ADELE: curve fit, trimming, bend."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, curve_fit

from feda3i.methods.curves import Curve, bend, fit_curve, flat_head, has_bent


def rising(constant, points=100):
    return 0.7 * (1 - np.exp(-np.arange(points) / constant))


def first_bend(values, r=0.9, rounds=100, **options):
    """Return the round at which the switch fires, counted from 0 for the initial model."""
    fired = (m for m in range(len(values)) if has_bent(values[: m + 1], r, rounds, **options))
    return next(fired, None)


def test_slope_is_the_derivative():
    curve = Curve(0.8, 0.6, 2.5)
    for x in (0.3, 1.0, 7.0):
        numeric = approx_fprime(np.array([x]), lambda v: float(curve.value(v)[0]), 1e-7)
        assert curve.slope(np.array([x]))[0] == pytest.approx(numeric[0], rel=1e-4)


def test_fit_is_the_weighted_bounded_fit_of_scipy():
    values = rising(4, 15) + 0.02 * np.sin(np.arange(15))
    x, error = np.linspace(0, 15, 15), np.geomspace(1, 0.1, 15)
    f = lambda x, a, b, c: a * (1 - np.exp(-(x**b) / c))
    expected, _ = curve_fit(
        f, x, values, p0=(1, 1, 1), sigma=error, bounds=([0, 0, 0], [1, 1, np.inf])
    )
    np.testing.assert_allclose(fit_curve(values), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("values", "cut"),
    [
        ([0.0, 0.0, 0.0, 0.2, 0.4, 0.5], 2),
        ([0.0, 0.2, 0.4, 0.5], 0),
        ([0.0, 0.0, 0.2, 0.4, 0.5], 1),
        ([0.0, 0.0, 0.0, 0.2, 0.4], 0),  # three points would remain
        ([0.1, 0.15, 0.2, 0.25, 0.3, 0.35], 0),  # no steep part at all
        ([0.5], 0),
    ],
)
def test_flat_head(values, cut):
    assert flat_head(values) == cut


def test_synthetic_curves_of_the_specification():
    assert first_bend(rising(3)) == 9
    # Cut to its last point, as without the limit on trimming, this curve would never switch.
    assert first_bend(rising(8)) == 21
    assert first_bend(rising(8), trim=False) == 21


def test_a_flat_head_delays_the_switch_by_its_length():
    delayed = np.concatenate([np.zeros(5), rising(3)])
    assert first_bend(delayed) == first_bend(rising(3)) + 5


@pytest.mark.parametrize("constant", [2, 3, 5])
def test_a_larger_share_switches_later(constant):
    found = [first_bend(rising(constant), r) for r in (0.5, 0.7, 0.9)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_bend_of_an_exponential():
    # f' falls as exp(-x / 3): it has lost 90 % of f'(1) at 1 + 3 log 10 = 7.9.
    assert bend(Curve(0.7, 1.0, 3.0), 0.9, 100) == 1 + 7
    assert bend(Curve(0.0, 1.0, 3.0), 0.9, 100) is None
    assert bend(Curve(0.5, 0.0, 3.0), 0.9, 100) is None


def test_nothing_is_decided_on_few_points():
    assert not has_bent([0.0, 0.6, 0.6], 0.9, 100)
    assert has_bent([0.0, 0.6, 0.6], 0.9, 100, points=3)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=15),
    st.integers(1, 20),
    st.booleans(),
)
def test_any_curve_gives_a_decision(values, rounds, trim):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert has_bent(values, 0.9, rounds, trim=trim) in (True, False)


def test_values_that_are_not_finite_are_no_curve():
    assert fit_curve([0.1, np.nan, 0.3, 0.4]) is None
    assert fit_curve([0.1]) is None
