import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.bench import stats
from feda3i.seeding import rng


def test_wilcoxon_leaves_out_zeros_and_corrects_for_continuity():
    assert stats.wilcoxon([0.0, 0.0]) == 1.0
    assert stats.wilcoxon([0.0, 1.0, 2.0, -3.0, 4.0]) == 0.625, "exact"
    tied = [0.1] * 40 + [-0.1] * 20
    assert stats.wilcoxon(tied) == scipy.stats.wilcoxon(tied, correction=True, method="approx")[1]


def test_an_interval_is_that_of_scipy():
    draws = rng(1, "bootstrap").exponential(size=150)
    expected = scipy.stats.bootstrap(
        (draws,), np.mean, method="percentile", n_resamples=20_000, rng=rng(2, "scipy")
    ).confidence_interval
    assert stats.bootstrap(draws, draws=20_000) == pytest.approx(tuple(expected), abs=0.02)
    assert stats.bootstrap(draws) == stats.bootstrap(draws)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_its_definition(values):
    adjusted = stats.holm(values)
    for i, value in enumerate(values):
        # A test is rejected at its adjusted level if all smaller ones are at theirs.
        smaller = sorted(other for other in values if other <= value)
        worst = max((len(values) - k) * p for k, p in enumerate(smaller))
        assert adjusted[i] == pytest.approx(min(1.0, worst))


def test_spread_ranks_and_gaps():
    values = [0.7, 0.8, 0.75]
    found = stats.spread(values)
    assert (found.mean, found.std) == (pytest.approx(0.75), pytest.approx(np.std(values)))
    scores = {"a": {"x": 0.9, "y": 0.8}, "b": {"x": 0.6, "y": 0.6}, "c": {"y": 1.0}}
    assert stats.mean_ranks(scores) == {"x": 1.25, "y": 1.75}, "settings that have all methods"
    assert math.isnan(stats.spearman([1, 1, 1], [1, 2, 3]))


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
