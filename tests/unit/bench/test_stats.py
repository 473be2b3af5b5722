import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.bench import stats
from feda3i.seeding import rng

FEW = st.lists(st.floats(-1, 1, allow_nan=False), min_size=2, max_size=60)
EXACT = settings(derandomize=True, max_examples=60, deadline=None)


@EXACT
@given(FEW, st.integers(0, 9))
def test_spearman_is_that_of_scipy(values, seed):
    other = rng(seed, "other").normal(size=len(values))
    if len(set(values)) == 1:
        assert math.isnan(stats.spearman(values, other))
    else:
        expected = scipy.stats.spearmanr(values, other).statistic
        assert stats.spearman(values, other) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("count", [1, 4, 9, 30, 50])
def test_wilcoxon_is_exact_as_scipy(count):
    draws = rng(count, "wilcoxon").normal(0.3, 1.0, count)
    expected = scipy.stats.wilcoxon(draws, method="exact").pvalue
    assert stats.wilcoxon(draws) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("count", [60, 150])
@pytest.mark.parametrize("digits", [2, 9])
def test_wilcoxon_of_many_is_the_approximation_of_scipy(count, digits):
    draws = rng(count, "wilcoxon").normal(0.1, 0.4, count).round(digits)  # two digits have ties
    expected = scipy.stats.wilcoxon(
        draws, zero_method="wilcox", correction=True, method="approx"
    ).pvalue
    assert stats.wilcoxon(draws) == pytest.approx(expected, abs=1e-9)


def test_wilcoxon_of_nothing_finds_nothing():
    assert stats.wilcoxon([0.0, 0.0]) == 1.0


def test_an_interval_is_that_of_scipy():
    draws = rng(1, "bootstrap").exponential(size=150)
    expected = scipy.stats.bootstrap(
        (draws,), np.mean, method="percentile", n_resamples=20_000, rng=rng(2, "scipy")
    ).confidence_interval
    found = stats.bootstrap(draws, draws=20_000)
    assert found == pytest.approx(tuple(expected), abs=0.02)
    assert stats.bootstrap(draws) == stats.bootstrap(draws)


@EXACT
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_its_definition(values):
    adjusted = stats.holm(values)
    for i, value in enumerate(values):
        # A test is rejected at its adjusted level if all smaller ones are at theirs.
        smaller = sorted(other for other in values if other <= value)
        worst = max((len(values) - k) * p for k, p in enumerate(smaller))
        assert adjusted[i] == pytest.approx(min(1.0, worst))
    assert all(a >= v for a, v in zip(adjusted, values, strict=True))


def test_spread_is_of_the_population():
    values = [0.7, 0.8, 0.75]
    found = stats.spread(values)
    assert (found.mean, found.std) == (pytest.approx(0.75), pytest.approx(np.std(values)))


def test_mean_ranks_leave_out_settings_that_lack_a_method():
    scores = {"a": {"x": 0.9, "y": 0.8}, "b": {"x": 0.6, "y": 0.6}, "c": {"y": 1.0}}
    assert stats.mean_ranks(scores) == {"x": 1.25, "y": 1.75}


def test_a_gap_that_is_none_cannot_be_closed():
    assert math.isnan(stats.gap_closed(0.9, 0.8, 0.8))
    assert math.isnan(stats.gap_closed(0.8, 0.8, 0.809))
    assert stats.gap_closed(0.805, 0.8, 0.82) == 0.25
    assert stats.gap_closed(0.6, 0.7, 0.8) == -1.0


def test_methods_are_compared_case_by_case_and_seed_by_seed():
    this = {0: {"a": 0.5, "b": 0.7}, 1: {"a": 0.6, "b": 0.6}, 7: {"a": 0.0, "b": 0.0}}
    other = {0: {"a": 0.6, "b": 0.7}, 1: {"a": 0.8, "b": 0.7}}
    found = stats.compare(this, other)
    assert found.by_seed == {0: pytest.approx(0.05), 1: pytest.approx(0.15)}
    assert found.mean == pytest.approx(0.1)
    assert found.low <= found.mean <= found.high
    assert found.p == scipy.stats.wilcoxon([0.15, 0.05]).pvalue
    assert stats.compare(this, {3: {"a": 0.5}}) is None
    assert stats.compare(this, {0: {"other": 0.5}}) is None
