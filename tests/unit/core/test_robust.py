"""Capped shares, trimmed means and the guard's judgement, against formulas and scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import trim_mean

from feda3i.core import robust
from feda3i.core.messages import Replies, Reply, cap_shares
from feda3i.seeding import rng


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=20), st.floats(0.01, 1.0))
def test_no_share_is_above_the_cap(cases, most):
    shares = np.array(cases) / sum(cases)
    capped = cap_shares(shares, most)
    assert capped.sum() == pytest.approx(1.0)
    assert capped.max() <= max(most, 1 / len(cases)) * (1 + 1e-12)
    free = capped < capped.max() * (1 - 1e-9)
    if free.sum() > 1:  # those below the cap keep their proportions
        assert capped[free] / capped[free].sum() == pytest.approx(shares[free] / shares[free].sum())


def test_without_a_cap_the_bits_stay():
    shares = rng(0, "shares").dirichlet(np.ones(9))
    assert cap_shares(shares, 1.0) is shares


def test_replies_count_cases_up_to_the_cap():
    items = tuple(Reply("fit", 1, f"s{k}", cases, {}) for k, cases in enumerate((80, 10, 10)))
    assert Replies("fit", 1, items).cases.tolist() == [80, 10, 10]
    capped = Replies("fit", 1, items, max_share=0.5)
    assert capped.share_of_cases() == pytest.approx([0.5, 0.25, 0.25])
    assert capped.cases == pytest.approx([50, 25, 25])


@pytest.mark.parametrize("sites", [1, 2, 3, 4, 7])
def test_merges_are_those_of_scipy_and_numpy(sites, monkeypatch):
    monkeypatch.setattr(robust, "_BLOCK", 16)
    rows = rng(sites, "rows").normal(size=(sites, 50)).astype(np.float32)
    cut = robust.trim_count(sites, 0.2)
    expected = trim_mean(rows.astype(np.float64), cut / sites, axis=0)
    assert robust.trimmed_mean(rows, cut) == pytest.approx(expected, abs=1e-6)
    assert robust.column_median(rows) == pytest.approx(np.median(rows, axis=0), abs=1e-6)


def judged(updates, is_trained=None):
    updates = np.asarray(updates, dtype=np.float32)
    base = rng(0, "base").normal(size=updates.shape[1]).astype(np.float32)
    trained = np.ones(len(base), bool) if is_trained is None else is_trained
    return robust.judge(base + updates, base, trained)


def test_norms_and_cosines_are_those_of_their_formulas(monkeypatch):
    monkeypatch.setattr(robust, "_BLOCK", 7)
    updates = rng(3, "updates").normal(size=(5, 40)) * np.array([1, 1, 2, 1, 30])[:, None]
    is_trained = np.arange(40) < 25
    found, medians = judged(updates, is_trained)
    trained = updates[:, :25]
    norms = np.linalg.norm(trained, axis=1)
    buffers = np.linalg.norm(updates[:, 25:], axis=1)
    assert medians == pytest.approx([np.median(norms), np.median(buffers)], rel=1e-5)
    ratios = np.maximum(norms / medians[0], buffers / medians[1])
    cut = trained * np.minimum(1, medians[0] / norms)[:, None]
    for k, one in enumerate(found):
        others = np.delete(cut, k, axis=0).sum(axis=0)
        cosine = trained[k] @ others / np.linalg.norm(trained[k]) / np.linalg.norm(others)
        assert one.ratio == pytest.approx(ratios[k], rel=1e-4)
        assert one.cosine == pytest.approx(cosine, abs=1e-4)
    assert robust.far_off(found, 3.0) == [4]


def test_who_opposes_the_others_is_found_however_large():
    good = rng(1, "good").normal(size=(4, 30)) * 0.1 + 1
    found, _ = judged(np.vstack([good, -50 * good[:1]]))
    assert [one.cosine > 0.9 for one in found] == [True] * 4 + [False]
    assert robust.opposed(found, ()) == [4]
    assert robust.opposed(found, (4,)) == []


def test_half_of_the_sites_is_never_outvoted():
    up = np.ones((2, 8))
    found, _ = judged(np.vstack([up, -up]))
    assert robust.opposed(found, ()) == []
    assert robust.far_off(judged([[1.0], [99.0]])[0], 3.0) == []
    many, _ = judged([[0.0], [0.0], [0.0], [1.0], [2.0], [3.0], [0.0]])
    assert robust.far_off(many, 3.0) == [3, 4, 5]


def test_nobody_is_judged_where_nobody_moved():
    found, _ = judged(np.zeros((4, 6)))
    assert [one.ratio for one in found] == [0.0] * 4
    assert robust.far_off(found, 3.0) == robust.opposed(found, ()) == []
