"""Balanced weights: bounds, the centre, trust, the border in the images."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.quality import (
    Rating,
    SiteSurvey,
    balance_by_offset,
    balance_sites,
    shares,
    survey_lines,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=12), st.integers(0, 2**20), st.booleans())
def test_nobody_is_silenced_or_crowned(values, seed, has_edges):
    draw = np.random.default_rng(seed)
    mu, counts = np.array(values), draw.integers(1, 50, len(values))
    error = draw.uniform(0.1, 3, (2, len(mu)))
    edge = np.where(draw.random(len(mu)) < 0.2, np.nan, mu + draw.normal(0, 3, len(mu)))
    found = balance_sites(mu, error[0], counts, *((edge, error[1]) if has_edges else ()))
    size = shares(counts)
    assert found.weights.sum() == pytest.approx(1)
    assert (found.weights >= 0.25 * size - 1e-9).all()
    assert (found.weights <= np.maximum(size, np.minimum(4 * size, 0.4)) + 1e-9).all()
    assert 0 <= found.trust <= 1


def test_the_weighted_offset_moves_to_the_middle():
    values = np.array([-9.0, -8, -8, -7, -6, -6, -5, -5, -3, 9])
    found = balance_sites(values, np.full(10, 0.2), np.ones(10))
    assert found.centre == 0
    before, after = values.mean(), float(found.weights @ values)
    assert before < -4
    assert after == pytest.approx((1 - found.trust) * before, abs=1e-6)


def test_where_the_bounds_allow_no_more_it_comes_as_near_as_they_do():
    values = np.array([-9.0] * 39 + [9])
    found = balance_sites(values, np.full(40, 0.1), np.ones(40))
    assert found.weights[-1] == pytest.approx((4 * found.trust + 1 - found.trust) / 40)


def test_order_a_common_offset_and_the_direction_do_not_matter():
    values, counts = np.array([-7.0, -6, -4, 0, 5, 11]), np.array([3, 1, 4, 1, 5, 9])
    order = np.array([4, 2, 0, 5, 1, 3])
    here = balance_sites(values, np.ones(6), counts).weights
    there = balance_sites(values[order] + 100, np.ones(6), counts[order]).weights
    assert there == pytest.approx(here[order], abs=1e-9)
    assert balance_sites(-values, np.ones(6), counts).weights == pytest.approx(here, abs=1e-9)


def test_trust_grows_with_sites_and_with_certainty():
    def trust(number, error):
        values = np.linspace(-5, 9, number)
        return balance_sites(values, np.full(number, error), np.ones(number)).trust

    assert 0 < trust(4, 0.5) < trust(5, 0.5) < trust(8, 0.5) < trust(40, 0.5) < 1
    assert trust(8, 1.0) < trust(8, 0.5)


def test_an_unrated_site_keeps_its_share():
    counts = np.array([10, 1, 2, 3, 4, 5])
    found = balance_sites([np.nan, -4, -3, -2, 0, 9], [np.nan, 1, 1, 1, 1, 1], counts)
    assert found.weights[0] == pytest.approx(0.4)


def by_edges(mu, b0=1.0, error=0.5):
    """Balance sites that draw ``mu`` px too large; who draws right draws b0 px off the edge."""
    mu, errors = np.asarray(mu, dtype=float), np.full(len(mu), error)
    return balance_sites(mu - mu.mean(), errors, np.ones(len(mu)), mu + b0, errors)


@pytest.mark.parametrize(
    ("found", "counts", "why"),
    [
        (balance_sites([0.0], [0.1], [3]), [3], "1 rated sites of at least 4"),
        (balance_sites([0.0, 9, 18], [0.1] * 3, [3, 1, 2]), [3, 1, 2], "3 rated sites of at least"),
        (balance_sites(range(5), [1.9] * 5, [1, 2, 3, 4, 5]), [1, 2, 3, 4, 5], "than by chance"),
        # By their middle the sites draw too large on average, by the edges too small.
        (by_edges([-13.0, 3, 5, 7, 9], b0=-6), [1] * 5, "opposite directions"),
        (by_edges([-9.0, -3, 0, 3, 9]), [1] * 5, "near the border on average"),
    ],
)
def test_without_good_reason_everybody_keeps_the_share_exactly(found, counts, why):
    assert np.array_equal(found.weights, shares(counts))
    assert found.trust == 0
    assert why in found.reason


MU = np.array([-2.0, 3.0, 12.0, 15.0, 19.0])


def test_three_sites_are_balanced_when_their_images_tell():
    mu = np.array([0.0, 14.0, 18.0])
    found = by_edges(mu)
    assert "edges in the images" in found.reason
    assert found.weights @ mu < mu.mean() - 1


@pytest.mark.parametrize("b0", [-2.0, 1.0, 4.0])
def test_four_of_five_on_one_side_do_not_hide_the_border(b0):
    ends = balance_sites(MU - MU.mean(), np.full(5, 0.5), np.ones(5)).weights
    edges = by_edges(MU, b0).weights
    assert abs(edges @ MU) < min(abs(ends @ MU) - 0.5, 0.75 * MU.mean())


@pytest.mark.parametrize(
    "edge",
    [
        lambda mu: np.full(5, np.nan),
        lambda mu: np.where(np.arange(5) < 2, mu, np.nan),
        lambda mu: -mu,
        lambda mu: mu + 30,  # another border than the one that is drawn: a cup in its disc
    ],
)
def test_edges_that_cannot_tell_leave_the_rule_as_it_was(edge):
    mu, errors = np.array([-9.0, -8, -7, -3, 9]), np.full(5, 0.5)
    plain = balance_sites(mu, errors, np.ones(5))
    found = balance_sites(mu, errors, np.ones(5), edge(mu), errors)
    assert np.array_equal(found.weights, plain.weights)
    assert found.reason == plain.reason


def test_a_site_without_edges_is_placed_by_the_model_at_any_scale():
    edge = np.where(np.arange(5) == 3, np.nan, MU + 1)
    for scale in (1, 1 / 8):
        error = np.full(5, 0.5) * scale
        found = balance_sites((MU - 9) * scale, error, np.ones(5), edge * scale, error, 256 * scale)
        assert found.places == pytest.approx((MU + 1) * scale)
        assert found.weights == pytest.approx(by_edges(MU).weights)


# -- ratings ---------------------------------------------------------------------------------------

DRAWN = dict(zip("abcdef", [-6.0, -5, -5, -4, 0, 9], strict=True))
EIGHT = dict.fromkeys("abcdef", 8.0)


def survey_of(*offset, edge=None):
    """Return a survey of as many classes as there are offsets."""
    q, pairs = [[0.5, 0.5]] * len(offset), [[value, 0.3] for value in offset]
    return SiteSurvey(q, [8] * len(offset), pairs, None if edge is None else [[edge, 0.3]])


def rated(drawn):
    return balance_by_offset({name: survey_of(mu) for name, mu in drawn.items()}, EIGHT)


def test_absent_sites_leave_the_others_as_one_group():
    rating = rated(DRAWN)
    whole = rating.weights(list("abcdef"), [8] * 6)
    part = rating.weights(list("abcde"), [8] * 5)
    assert part == pytest.approx(whole[:5] / whole[:5].sum())


def test_a_rating_by_edges_names_its_evidence_and_survives_the_checkpoint():
    surveys = {n: survey_of(mu - 9, edge=mu + 1) for n, mu in zip("abcde", MU, strict=True)}
    given = json.loads(json.dumps({name: one.to_dict() for name, one in surveys.items()}))
    rating = balance_by_offset({n: SiteSurvey.from_dict(one) for n, one in given.items()}, EIGHT)
    assert "balanced by the edges in the images" in survey_lines(rating, [8] * 5)[0]
    assert rating.parts[0].grouping.labels == ("smaller", "smaller", "larger", "larger", "larger")
    again = Rating.from_dict(json.loads(json.dumps(rating.to_dict())))
    assert again.parts[0].edge.tolist() == [[mu + 1, 0.3] for mu in MU]
    assert again.weights("abc", [8] * 3).tolist() == rating.weights("abc", [8] * 3).tolist()


def test_classes_are_balanced_one_by_one_and_averaged():
    both = {name: survey_of(value, -value) for name, value in DRAWN.items()}
    rating = balance_by_offset(both, EIGHT)
    assert len(rating.parts) == 2
    mean = (rating.parts[0].weights + rating.parts[1].weights) / 2
    assert rating.weights(list(DRAWN), [8] * 6) == pytest.approx(mean)


def test_nobody_can_be_rated():
    missing = SiteSurvey([[np.nan, np.nan]], [0], [[np.nan, np.nan]])
    rating = balance_by_offset({"a": missing, "b": None}, {"a": 1.0, "b": 3.0})
    assert rating.weights(["a", "b"], [1, 3]).tolist() == [0.25, 0.75]


def test_a_line_names_an_unusual_site_and_says_why():
    lines = survey_lines(rated(DRAWN), [8] * 6)
    assert "balanced at offset +1.50 px of 6 sites" in lines[0]
    assert any("a:" in line and "px smaller than the middle" in line for line in lines[1:])
