"""Eq. 6 and Eq. 7 with all their corners, and what partial participation makes of them."""

import json

import numpy as np
import pytest
from drawn import any_sites
from hypothesis import given, settings
from hypothesis import strategies as st

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
    groups = group_sites(q)
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
