"""Eq. 6 and Eq. 7 with all their corners, groups of sites, and what partial participation does."""

import json

import numpy as np
import pytest
from drawn import any_sites
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from feda3i.errors import RecipeError
from feda3i.quality import (
    Grouping,
    Rating,
    SiteSurvey,
    effective_sites,
    group_sites,
    mix_by_stage,
    rate_sites,
    shares,
    site_weights,
    weights,
)
from feda3i.quality import rating as quality_rating
from feda3i.quality.rating import Part

Q = np.array([[0.9, 0.2], [0.6, 0.25], [0.4, 0.3], [0.2, 0.8], [0.25, 0.5]])
LABELS = ["larger"] * 3 + ["smaller"] * 2
UNRATED = ["larger", "unrated", "larger", "smaller", "smaller"]
EQUAL = np.array([[0.5, 0.2], [0.6, 0.3], [0.1, 0.4]])
NAN = [np.nan, np.nan]


@pytest.mark.parametrize(
    ("q", "labels", "r", "expected"),
    [
        (Q, LABELS, 0.5, [0, 0.184211, 0.315789, 0, 0.5]),
        (Q, LABELS, 0.0, [0, 0, 0, 0, 1]),
        (Q, LABELS, 1.0, [0, 0.368421, 0.631579, 0, 0]),
        (Q, LABELS, "share", [0, 0.221053, 0.378947, 0, 0.4]),
        (7.3 * Q, LABELS, 0.5, [0, 0.184211, 0.315789, 0, 0.5]),
        (Q + [[0.4, 0.0]] * 5, LABELS, 0.5, [0, 0.184211, 0.315789, 0, 0.5]),
        (Q[:, ::-1], ["smaller"] * 3 + ["larger"] * 2, 0.5, [0, 0.184211, 0.315789, 0, 0.5]),
        (Q, UNRATED, 0.5, [0, 0, 0.5, 0, 0.5]),
        (Q[:3], ["larger"] * 3, 0.2, [0, 0.368421, 0.631579]),  # one group takes everything
        (EQUAL, ["larger", "larger", "smaller"], 0.5, [0.25, 0.25, 0.5]),  # equal strengths
        (Q[:2], ["larger", "smaller"], 0.3, [0.3, 0.7]),
        (Q[:1], ["all"], 0.5, [1]),
        (Q[:3], ["unrated"] * 3, 0.5, [1 / 3] * 3),
    ],
)
def test_weights_of_groups(q, labels, r, expected):
    np.testing.assert_allclose(site_weights(q, labels, r), expected, atol=5e-7)


def test_stages_go_from_quantity_to_quality():
    quantity, quality = shares([5, 3, 7]), np.array([0.2, 0.8, 0.0])
    mixed = mix_by_stage(quantity, quality, 10)
    assert mixed.shape == (3, 10)
    assert mixed[:, 0].tobytes() == quantity.tobytes()
    assert mixed[:, 9].tobytes() == quality.tobytes()
    for j in range(10):
        np.testing.assert_allclose(mixed[:, j], j / 9 * quality + (1 - j / 9) * quantity)
    bent = mix_by_stage(quantity, quality, 3, power=2)
    np.testing.assert_allclose(bent[:, 1], 0.25 * quality + 0.75 * quantity)
    assert mix_by_stage(quantity, quality, 1)[:, 0].tolist() == quantity.tolist()


HALF = [0.5, 0.5]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: site_weights(Q, LABELS, 1.2), r"a number in \[0, 1\] or 'share', found 1.2"),
        (lambda: site_weights(Q, LABELS, float("nan")), "found nan"),
        (lambda: site_weights(Q, LABELS, "shares"), "found 'shares'"),
        (lambda: mix_by_stage([1, 1], HALF, 3), "sum to one"),
        (lambda: mix_by_stage(HALF, [1.0], 3), "sum to one"),
        (lambda: mix_by_stage(HALF, HALF, 0), "at least one stage"),
        (lambda: shares([0, 0]), "not all zero"),
        (lambda: rate_sites({"a": survey(Q[0]), "b": survey(Q[:2])}), "same classes"),
    ],
)
def test_mistakes_are_explained(act, message):
    with pytest.raises(RecipeError, match=message):
        act()


def survey(q):
    q = np.array(q, dtype=float).reshape(-1, 2)
    return SiteSurvey(q, np.full(len(q), 8))


SURVEYS = {f"site-{i}": survey(row) for i, row in enumerate(Q)}


def test_rating_of_one_class_is_the_paper_and_survives_json():
    data = rate_sites({**SURVEYS, "late": None}, seed=7).to_dict()
    rating = Rating.from_dict(json.loads(json.dumps(data, allow_nan=False)))
    found = rating.weights(list(SURVEYS), np.ones(5))
    np.testing.assert_allclose(found, site_weights(Q, LABELS), atol=1e-15)
    found = rating.weights(["site-4", "new", "late"], [1, 2, 1])
    np.testing.assert_allclose(found, [0.25, 0.5, 0.25])
    assert data["parts"][0]["q"][5] == [None, None]
    assert rating.to_dict() == data
    nobody = rate_sites({"a": None, "b": None})
    np.testing.assert_allclose(nobody.weights(["a", "b"], [1, 3]), [0.25, 0.75])


def test_classes_are_averaged_where_a_site_is_rated():
    surveys = {
        "a": survey([[0.9, 0.2], [0.1, 0.6]]),
        "b": survey([[0.4, 0.3], NAN]),
        "c": survey([[0.2, 0.8], [0.5, 0.2]]),
        "d": survey([NAN, NAN]),
    }
    rating = rate_sites(surveys, r=0.5)
    assert [(part.class_number, part.grouping.labels) for part in rating.parts] == [
        (1, ("larger", "larger", "smaller", "unrated")),
        (2, ("smaller", "unrated", "larger", "unrated")),
    ]
    # class 1: 0, .5, .5; class 2: .5, -, .5; means .25, .5, .5 share what d leaves
    expected = np.array([0.25, 0.5, 0.5]) / 1.25 * 0.75
    np.testing.assert_allclose(rating.weights(list(surveys), [1] * 4), [*expected, 0.25])
    assert quality_rating.weight_reason(rating, "b") == (
        "class 1: best of 2 among those who draw larger; "
        "class 2: not rated, so its share of the cases counts"
    )
    assert quality_rating.weight_reason(rating, "new") == "it was not surveyed"


def test_the_console_hears_of_unusual_weights_and_how_many_more(monkeypatch):
    monkeypatch.setattr(quality_rating, "MOST_LINES", 1)
    head, line, rest = quality_rating.survey_lines(rate_sites(SURVEYS), [8] * 5)
    assert head.startswith("survey of 5 sites: two Gaussians on (q1, q2)")
    assert line == (
        "site-0: 0 % of the weight in the last stage (20 % of the cases): noisiest of 3 among "
        "those who draw larger"
    )
    assert rest == "and 3 more sites, see the survey in events.jsonl"


def rated(labels, weights):
    """Return a rating with these groups and weights; the first site is ``s0``."""
    unknown = np.full(len(labels), np.nan)
    groups = Grouping(tuple(labels), unknown, unknown, "")
    part = Part(1, np.full((len(labels), 2), np.nan), groups, np.asarray(weights))
    return Rating(tuple(f"s{k}" for k in range(len(labels))), (part,))


@pytest.mark.parametrize(
    ("labels", "r", "counts", "here", "expected"),
    [
        (LABELS, 0.3, [1, 2, 3, 4, 5], [4, 1], [0.7, 0.3]),  # groups keep their masses
        (LABELS, 0.3, [1, 2, 3, 4, 5], [2, 1], [0.631579, 0.368421]),
        # only the noisiest of both groups: their shares of the cases
        (LABELS, 0.3, [1, 2, 3, 4, 5], [0, 3], [0.2, 0.8]),
        # only the noisiest of one group: that group counts as absent
        (LABELS, 0.3, [1, 2, 3, 4, 5], [0, 4], [0, 1]),
        # unrated sites get their share of the cases
        (UNRATED, 0.5, [2, 4, 2, 1, 1], [0, 1, 2, 3, 4], [0, 0.4, 0.3, 0, 0.3]),
        (UNRATED, 0.5, [2, 4, 2, 1, 1], [1], [1]),
        (UNRATED, 0.5, [2, 4, 2, 1, 1], [1, 0], [4 / 6, 2 / 6]),
    ],
)
def test_weights_of_those_who_take_part(labels, r, counts, here, expected):
    rating = rated(labels, site_weights(Q, labels, r))
    found = rating.weights([f"s{k}" for k in here], [counts[k] for k in here])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-12)


kinds = st.sampled_from(["cloud", "ties", "bad", "one kind"])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.floats(0, 1) | st.just("share"), st.integers(0, 2**32), kinds)
def test_weights_of_any_federation(sites, r, seed, kind):
    random, q = any_sites(sites, seed, kind)
    counts = random.integers(1, 50, sites)
    groups, order = group_sites(q), random.permutation(sites)
    moved = group_sites(q[order])  # the order of sites does not matter
    assert (moved.labels, moved.reason) == (tuple(groups.labels[i] for i in order), groups.reason)
    np.testing.assert_array_equal(moved.posterior, groups.posterior[order])
    np.testing.assert_array_equal(moved.strength, groups.strength[order])
    weights = site_weights(q, groups, r)
    rating = rated(groups.labels, weights)
    quality = rating.weights(rating.sites, counts)
    for one in (weights, quality):
        assert (one >= 0).all()
        assert one.sum() == pytest.approx(1, abs=1e-9)
    assert 1 - 1e-9 <= effective_sites(quality) <= sites + 1e-9

    for label in ("larger", "smaller"):
        inside = groups.members(label)
        s = groups.strength[inside]
        if len(inside) > 1 and np.ptp(s) > 1e-9:
            assert weights[inside[np.argmax(s)]] == 0
            assert (np.diff(weights[inside[np.argsort(s)]]) <= 0).all()
    here = random.permutation(sites)[: random.integers(1, sites + 1)]
    part = rating.weights([rating.sites[k] for k in here], counts[here])
    by_stage = mix_by_stage(shares(counts[here]), part, 10)
    np.testing.assert_allclose(by_stage.sum(axis=0), 1, atol=1e-12)
    assert (by_stage >= 0).all()
    unrated = np.array(groups.labels)[here] == "unrated"
    np.testing.assert_allclose(part[unrated], shares(counts[here])[unrated])


# -- groups of sites: every corner of the mixture -------------------------------------------------


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
