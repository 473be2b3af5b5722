"""Groups of sites: every corner of the mixture, and that the order of sites cannot matter."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.errors import RecipeError
from feda3i.quality import (
    Grouping,
    SiteSurvey,
    doubts,
    group_sites,
    rate_sites,
    say_lines,
    strengths,
)


def clouds(larger=12, smaller=8, seed=0):
    """Return two clear clouds: sites that draw too large, then sites that draw too small."""
    random = np.random.default_rng(seed)
    centres = np.repeat([[0.8, 0.2], [0.2, 0.9]], [larger, smaller], axis=0)
    return centres + random.normal(0, 0.03, centres.shape)


def one_cloud(sites=20):
    """Return one round cloud: where it is cut in two is chance."""
    return 1 + 0.1 * np.random.default_rng(2).normal(size=(sites, 2))


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
    assert groups.agreement == 1.0
    assert not groups.is_doubtful


def test_seed_decides_and_repeats():
    q = np.random.default_rng(5).gamma(2, 1, (40, 2))
    first, second = (group_sites(q, seed=3, initialisations=1) for _ in range(2))
    np.testing.assert_array_equal(first.posterior, second.posterior)
    several = {group_sites(q, seed=s, initialisations=1).labels for s in range(10)}
    assert len(several) > 1


@pytest.mark.parametrize(
    ("q", "labels"),
    [
        (np.empty((0, 2)), ()),
        ([[0.5, 0.1]], ("all",)),
        ([[0.3, 0.3]] * 5, ("all",) * 5),
        ([[0.9, 0.1], [0.8, 0.3]], ("larger", "smaller")),
        ([[0.8, 0.3], [0.9, 0.1]], ("smaller", "larger")),
        ([[0.1, 0.0], [0.2, 0.9]], ("larger", "smaller")),
        ([[0.2, 0.9], [0.1, 0.0]], ("smaller", "larger")),
        (np.full((3, 2), np.nan), ("unrated",) * 3),
    ],
)
def test_few_sites(q, labels):
    groups = group_sites(q)
    assert groups.labels == labels
    assert groups.reason
    assert math.isnan(groups.agreement)
    assert not groups.is_doubtful


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


def test_mixture_that_does_not_converge_is_refitted():
    # one iteration never converges; ten with more initialisations do
    groups = group_sites(clouds(30, 30), iterations=1)
    assert groups.reason == "two Gaussians on (q1, q2), 50 initialisations"
    assert groups.labels == ("larger",) * 30 + ("smaller",) * 30


@pytest.mark.parametrize("failure", ["did not converge", "could not be fitted"])
def test_mixture_that_fails_is_split_at_the_median(monkeypatch, failure):
    from sklearn.mixture import GaussianMixture

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
@given(
    sites=st.integers(1, 60),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["cloud", "ties", "bad"]),
)
def test_order_of_sites_does_not_matter(sites, seed, kind):
    random = np.random.default_rng(seed)
    q = random.gamma(1.5, 0.4, (sites, 2))
    if kind == "ties":
        q = q.round(0)
    if kind == "bad":
        q[random.random(sites) < 0.3] = random.choice([np.nan, np.inf, -1.0])
    order = random.permutation(sites)
    groups = group_sites(q, initialisations=2)
    moved = group_sites(q[order], initialisations=2)
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
    assert again.agreement == groups.agreement
    np.testing.assert_array_equal(again.posterior, groups.posterior)
    np.testing.assert_array_equal(again.strength, groups.strength)


def test_doubtful_groups_are_told_on_the_console_and_with_the_result():
    """Other starts of the mixture cut a cloud without groups elsewhere."""
    clear, doubtful = (
        rate_sites({f"{k:02d}": SiteSurvey(row[None], np.array([8])) for k, row in enumerate(q)})
        for q in (clouds(), one_cloud())
    )
    assert doubts(clear) == []
    (line,) = doubts(doubtful)
    groups = doubtful.parts[0].grouping
    assert 0.0 <= groups.agreement < 0.5
    assert groups.is_doubtful
    assert f"{100 * groups.agreement:.0f} % of single starts" in line
    assert line in say_lines(doubtful, doubtful.sites, [8] * len(doubtful.sites))


def test_mistakes_are_explained():
    with pytest.raises(RecipeError, match=r"shape \(site, 2\), found \(3,\)"):
        group_sites([1, 2, 3])
    with pytest.raises(RecipeError, match="found 2 labels lager"):
        strengths([[1, 2], [2, 1]], ["larger", "lager"])
    with pytest.raises(RecipeError, match="each of 2 sites, found 1"):
        strengths([[1, 2], [2, 1]], ["larger"])
