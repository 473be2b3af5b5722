"""Groups of sites: every rule, every guard, and that the order of sites cannot matter."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.errors import RecipeError
from feda3i.quality import RULES, Grouping, group_sites, strengths


def clouds(larger=12, smaller=8, seed=0):
    """Return two clear clouds: sites that draw too large, then sites that draw too small."""
    random = np.random.default_rng(seed)
    centres = np.repeat([[0.8, 0.2], [0.2, 0.9]], [larger, smaller], axis=0)
    return centres + random.normal(0, 0.03, centres.shape)


@pytest.mark.parametrize("rule", ["mixture", "sign", "difference", "midrange"])
def test_every_rule_finds_clear_clouds(rule):
    groups = group_sites(clouds(), rule)
    assert groups.labels == ("larger",) * 12 + ("smaller",) * 8
    assert groups.members("smaller").tolist() == list(range(12, 20))
    assert ((groups.posterior > 0.5) == ([True] * 12 + [False] * 8)).all()
    q = clouds()
    np.testing.assert_allclose(groups.strength[:12], q[:12, 0] - q[:12, 1])
    np.testing.assert_allclose(groups.strength[12:], q[12:, 1] - q[12:, 0])


def test_mixture_follows_the_clouds_where_the_sign_cannot():
    q = clouds() + np.array([0.0, 0.7])  # every site has q1 < q2, yet there are two kinds
    assert group_sites(q, "mixture").labels == ("larger",) * 12 + ("smaller",) * 8
    single = group_sites(q, "sign")
    assert set(single.labels) == {"all"}
    assert "a group is empty, inter-group weighting off" in single.reason
    np.testing.assert_allclose(single.strength, np.abs(q[:, 0] - q[:, 1]))


def test_rule_none_is_one_group():
    groups = group_sites(clouds(), "none")
    assert set(groups.labels) == {"all"}
    assert np.isnan(groups.posterior).all()


def test_seed_decides_and_repeats():
    q = np.random.default_rng(5).gamma(2, 1, (40, 2))
    first, second = (group_sites(q, seed=3, initialisations=1) for _ in range(2))
    np.testing.assert_array_equal(first.posterior, second.posterior)
    several = {group_sites(q, seed=s, initialisations=1).labels for s in range(10)}
    assert len(several) > 1


@pytest.mark.parametrize("rule", RULES)
def test_few_sites(rule):
    assert group_sites(np.empty((0, 2)), rule).labels == ()
    assert group_sites([[0.5, 0.1]], rule).labels == ("all",)
    assert set(group_sites([[0.3, 0.3]] * 5, rule).labels) == {"all"}


@pytest.mark.parametrize("rule", ["mixture", "difference"])
def test_two_sites_are_one_in_each_group(rule):
    for q, labels in (
        ([[0.9, 0.1], [0.8, 0.3]], ("larger", "smaller")),
        ([[0.8, 0.3], [0.9, 0.1]], ("smaller", "larger")),
        ([[0.1, 0.0], [0.2, 0.9]], ("larger", "smaller")),
        ([[0.2, 0.9], [0.1, 0.0]], ("smaller", "larger")),
    ):
        groups = group_sites(q, rule)
        assert groups.labels == labels
        assert "two rated sites" in groups.reason


def test_bad_rows_are_unrated_and_counted():
    q = clouds()
    q[0] = np.nan
    q[3, 1] = np.inf
    q[15, 0] = -0.1
    q[16] = 1e9
    groups = group_sites(q)
    assert [i for i, label in enumerate(groups.labels) if label == "unrated"] == [0, 3, 15, 16]
    assert np.isnan(groups.strength[[0, 3, 15, 16]]).all()
    unrated = "unrated: 1 negative, 2 not finite or too large, 1 undefined of 20 sites"
    assert groups.reason.endswith(unrated)
    assert groups.is_rated().sum() == 16
    nobody = group_sites(np.full((3, 2), np.nan))
    assert set(nobody.labels) == {"unrated"}
    assert "no site could be rated" in nobody.reason


def test_mixture_that_does_not_converge_is_refitted():
    # one iteration never converges; ten with more initialisations do
    groups = group_sites(clouds(30, 30), iterations=1)
    assert groups.reason == "two Gaussians on (q1, q2), 50 initialisations"
    assert groups.labels == ("larger",) * 30 + ("smaller",) * 30


def test_mixture_that_never_converges_is_split_at_the_median(monkeypatch):
    from sklearn.mixture import GaussianMixture

    fit = GaussianMixture.fit

    def stop_early(self, rows):
        fit(self, rows).converged_ = False
        return self

    monkeypatch.setattr(GaussianMixture, "fit", stop_early)
    q = np.random.default_rng(0).normal(5, 1, (31, 2))
    groups = group_sites(q)
    assert "did not converge, split at the median of q1 - q2" in groups.reason
    difference = q[:, 0] - q[:, 1]
    larger = difference > np.median(difference)
    assert groups.labels == tuple(np.where(larger, "larger", "smaller"))


def test_mixture_that_cannot_be_fitted_is_split_at_the_median(monkeypatch):
    from sklearn.mixture import GaussianMixture

    def fail(self, rows):
        raise ValueError("ill-defined empirical covariance")

    monkeypatch.setattr(GaussianMixture, "fit", fail)
    groups = group_sites(clouds(6, 6))
    assert "could not be fitted, split at the median" in groups.reason
    assert groups.labels == ("larger",) * 6 + ("smaller",) * 6


def test_bic_guard_keeps_one_cloud_together_and_two_apart():
    cloud = np.random.default_rng(1).normal(0.5, 0.05, (50, 2))
    assert set(group_sites(cloud).labels) == {"larger", "smaller"}  # the trap
    guarded = group_sites(cloud, bic_guard=True)
    assert set(guarded.labels) == {"all"}
    assert "BIC" in guarded.reason
    assert set(group_sites(clouds(), bic_guard=True).labels) == {"larger", "smaller"}


def test_groups_that_are_too_small_are_joined():
    q = clouds(19, 1)
    assert group_sites(q, "sign").labels.count("smaller") == 1
    joined = group_sites(q, "sign", smallest_group=2)
    assert set(joined.labels) == {"all"}
    assert "a group has 1 of at least 2 sites" in joined.reason


def test_midrange_takes_losses_of_zero():
    groups = group_sites([[0.0, 0.5], [0.5, 0.0], [0.4, 0.01]], "midrange")
    assert groups.labels == ("smaller", "larger", "larger")
    same_ratio = group_sites([[0.2, 0.1], [0.4, 0.2]], "midrange")
    assert set(same_ratio.labels) == {"all"}
    same_difference = group_sites([[0.3, 0.1], [0.4, 0.2], [0.5, 0.3]], "difference")
    assert set(same_difference.labels) == {"all"}


@settings(max_examples=60, deadline=None)
@given(
    sites=st.integers(1, 60),
    rule=st.sampled_from(RULES),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["cloud", "ties", "bad"]),
)
def test_order_of_sites_does_not_matter(sites, rule, seed, kind):
    random = np.random.default_rng(seed)
    q = random.gamma(1.5, 0.4, (sites, 2))
    if kind == "ties":
        q = q.round(0)
    if kind == "bad":
        q[random.random(sites) < 0.3] = random.choice([np.nan, np.inf, -1.0])
    order = random.permutation(sites)
    groups = group_sites(q, rule, initialisations=2)
    moved = group_sites(q[order], rule, initialisations=2)
    assert moved.labels == tuple(groups.labels[i] for i in order)
    np.testing.assert_array_equal(moved.posterior, groups.posterior[order])
    np.testing.assert_array_equal(moved.strength, groups.strength[order])
    assert moved.reason == groups.reason


def test_grouping_survives_json():
    q = clouds()
    q[0] = np.nan
    groups = group_sites(q)
    again = Grouping.from_dict(json.loads(json.dumps(groups.to_dict(), allow_nan=False)))
    assert (again.labels, again.rule, again.reason) == (groups.labels, groups.rule, groups.reason)
    np.testing.assert_array_equal(again.posterior, groups.posterior)
    np.testing.assert_array_equal(again.strength, groups.strength)


def test_mistakes_are_explained():
    with pytest.raises(RecipeError, match="did you mean 'mixture'"):
        group_sites(clouds(), "mixtur")
    with pytest.raises(RecipeError, match=r"shape \(site, 2\), found \(3,\)"):
        group_sites([1, 2, 3])
    with pytest.raises(RecipeError, match="found 2 labels lager"):
        strengths([[1, 2], [2, 1]], ["larger", "lager"])
    with pytest.raises(RecipeError, match="each of 2 sites, found 1"):
        strengths([[1, 2], [2, 1]], ["larger"])
