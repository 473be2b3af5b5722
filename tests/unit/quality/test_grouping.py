"""Groups of sites: every corner of the mixture, and that the order of sites cannot matter."""

import numpy as np
import pytest
from drawn import any_sites
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from feda3i.errors import RecipeError
from feda3i.quality import group_sites, weights


def clouds(larger=12, smaller=8, seed=0):
    """Return two clear clouds: sites that draw too large, then sites that draw too small."""
    random = np.random.default_rng(seed)
    centres = np.repeat([[0.8, 0.2], [0.2, 0.9]], [larger, smaller], axis=0)
    return centres + random.normal(0, 0.03, centres.shape)


@pytest.mark.parametrize("moved", [(0.0, 0.0), (0.0, 0.7)])
def test_clear_clouds_are_found(moved):
    """Also where every site has q1 < q2, as in the second."""
    q = clouds() + np.array(moved)
    groups = group_sites(q)
    assert groups.labels == ("larger",) * 12 + ("smaller",) * 8
    assert groups.members("smaller").tolist() == list(range(12, 20))
    assert ((groups.posterior > 0.5) == ([True] * 12 + [False] * 8)).all()
    np.testing.assert_allclose(groups.strength[:12], q[:12, 0] - q[:12, 1])
    np.testing.assert_allclose(groups.strength[12:], q[12:, 1] - q[12:, 0])


@pytest.mark.parametrize(
    ("q", "labels"),
    [
        (np.empty((0, 2)), ()),
        ([[0.5, 0.1]], ("all",)),
        ([[0.3, 0.3]] * 5, ("all",) * 5),
        ([[0.8, 0.3], [0.9, 0.1]], ("smaller", "larger")),
        ([[0.1, 0.0], [0.2, 0.9]], ("larger", "smaller")),
        (np.full((3, 2), np.nan), ("unrated",) * 3),
    ],
)
def test_few_sites(q, labels):
    groups = group_sites(q)
    assert groups.labels == labels
    assert groups.reason


def test_bad_rows_are_unrated_and_counted():
    q = clouds()
    q[0], q[3, 1], q[15, 0], q[16] = np.nan, np.inf, -0.1, 1e9
    groups = group_sites(q)
    assert groups.members("unrated").tolist() == [0, 3, 15, 16]
    assert np.isnan(groups.strength[[0, 3, 15, 16]]).all()
    assert groups.reason.endswith("; 4 of 20 sites are unrated")
    with pytest.raises(RecipeError, match=r"shape \(site, 2\), found \(3,\)"):
        group_sites([1, 2, 3])


def test_mixture_that_does_not_converge_is_refitted(monkeypatch):
    # one step never converges; ten of more starts do
    monkeypatch.setattr(weights, "STEPS", 1)
    groups = group_sites(clouds(30, 30))
    assert groups.reason == "two Gaussians on (q1, q2), 50 initialisations"
    assert groups.labels == ("larger",) * 30 + ("smaller",) * 30


@pytest.mark.parametrize("failure", ["did not converge", "could not be fitted"])
def test_mixture_that_fails_is_split_at_the_median(monkeypatch, failure):
    fit = GaussianMixture.fit

    def stop_early(self, rows):
        fit(self, rows).converged_ = False
        return self

    def fail(self, rows):
        raise ValueError("ill-defined empirical covariance")

    monkeypatch.setattr(GaussianMixture, "fit", fail if "fitted" in failure else stop_early)
    q = np.random.default_rng(0).normal(5, 1, (31, 2))
    groups = group_sites(q)
    assert f"{failure}, split at the median of q1 - q2" in groups.reason
    difference = q[:, 0] - q[:, 1]
    assert groups.labels == tuple(np.where(difference > np.median(difference), "larger", "smaller"))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 2**32), st.sampled_from(["cloud", "ties", "bad"]))
def test_order_of_sites_does_not_matter(sites, seed, kind):
    random, q = any_sites(sites, seed, kind)
    order = random.permutation(sites)
    groups, moved = group_sites(q), group_sites(q[order])
    assert moved.labels == tuple(groups.labels[i] for i in order)
    np.testing.assert_array_equal(moved.posterior, groups.posterior[order])
    np.testing.assert_array_equal(moved.strength, groups.strength[order])
    assert moved.reason == groups.reason
