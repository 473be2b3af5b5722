"""Balanced weights: bounds, the centre, trust, and offsets measured on shapes."""

import math

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.errors import DataError, RecipeError
from feda3i.quality import (
    SiteSurvey,
    balance_by_offset,
    balance_sites,
    contour_offset,
    say_lines,
    shares,
    site_offset,
)


def disc(radius, size=64, centre=32):
    rows, columns = np.ogrid[:size, :size]
    return ((rows - centre) ** 2 + (columns - centre) ** 2 <= radius**2).astype(np.uint8)


# -- offsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [-6, -3, 0, 1, 4, 9])
def test_discs_differ_by_their_radii(by):
    # Distances between pixels are a little short on slanted borders: at most 8 % or 0.2 px.
    assert contour_offset(disc(15 + by), disc(15)) == pytest.approx(by, rel=0.08, abs=0.21)
    assert contour_offset(disc(15), disc(15 + by)) == pytest.approx(-by, rel=0.08, abs=0.21)


def test_a_ball_in_three_dimensions():
    grid = np.stack(np.meshgrid(*[np.arange(32)] * 3, indexing="ij")) - 16
    away = np.sqrt((grid**2).sum(axis=0))
    assert contour_offset(away <= 11, away <= 8) == pytest.approx(3, abs=0.25)


def test_a_border_at_the_frame_is_no_border():
    half, more = np.zeros((32, 32)), np.zeros((32, 32))
    half[:, :16], more[:, :19] = 1, 1
    assert contour_offset(more, half) == 3
    assert contour_offset(half, more) == -3


def test_cropping_changes_nothing():
    big, small = disc(9, 200, 60), disc(6, 200, 62)
    cropped = contour_offset(big[40:80, 40:80], small[40:80, 40:80])
    assert contour_offset(big, small) == pytest.approx(cropped, abs=1e-6)


@pytest.mark.parametrize("empty", [np.zeros((8, 8)), np.ones((8, 8))])
def test_without_a_contour_there_is_no_offset(empty):
    drawn = np.eye(8)
    assert math.isnan(contour_offset(drawn, empty))
    assert math.isnan(contour_offset(empty, drawn))


def test_masks_of_two_shapes_are_refused():
    with pytest.raises(DataError, match="one shape"):
        contour_offset(np.eye(8), np.eye(9))


def test_a_missed_object_does_not_move_a_sites_offset():
    found = site_offset([2.0, 2.1, 1.9, 2.0, 2.0, -40.0])
    assert found[0] == pytest.approx(2.0)
    assert np.isnan(site_offset([2.0])).all()  # one case has no spread
    assert np.isnan(site_offset([2.0, np.nan, np.nan, np.nan, 2.0])).all()  # the model sees too few


def test_the_error_is_that_of_a_median():
    draw = np.random.default_rng(0)
    medians = [np.median(draw.normal(0, 3, 25)) for _ in range(4000)]
    errors = [site_offset(draw.normal(0, 3, 25))[1] for _ in range(400)]
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.05)


# -- weights ---------------------------------------------------------------------------------------


offsets = st.lists(st.floats(-30, 30), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(offsets, st.integers(0, 2**20))
def test_nobody_is_silenced_or_crowned(values, seed):
    draw = np.random.default_rng(seed)
    counts = draw.integers(1, 50, len(values))
    found = balance_sites(values, draw.uniform(0.1, 3, len(values)), counts)
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


def test_mirrored_offsets_give_the_same_weights():
    values = np.array([-7.0, -6, -4, 0, 5, 11])
    left = balance_sites(values, np.ones(6), np.arange(1, 7))
    right = balance_sites(-values, np.ones(6), np.arange(1, 7))
    assert left.weights == pytest.approx(right.weights, abs=1e-9)


def test_order_and_a_common_offset_do_not_matter():
    values, counts = np.array([-7.0, -6, -4, 0, 5, 11]), np.array([3, 1, 4, 1, 5, 9])
    order = np.array([4, 2, 0, 5, 1, 3])
    here = balance_sites(values, np.ones(6), counts).weights
    there = balance_sites(values[order] + 100, np.ones(6), counts[order]).weights
    assert there == pytest.approx(here[order], abs=1e-9)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_few_sites_keep_their_shares_exactly(number):
    counts = np.arange(1, number + 1)
    found = balance_sites(np.arange(number) * 9.0, np.full(number, 0.1), counts)
    assert np.array_equal(found.weights, shares(counts))
    assert "of at least 4" in found.reason


def test_offsets_within_chance_change_nothing():
    found = balance_sites([0.0, 1, 2, 3, 4, 5], np.full(6, 1.9), np.arange(1, 7))
    assert np.array_equal(found.weights, shares(np.arange(1, 7)))
    assert found.trust == 0


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
    assert found.weights.sum() == pytest.approx(1)


def test_a_site_that_holds_most_cases_may_keep_them():
    found = balance_sites([-6.0, -5, -5, 4, 6], np.full(5, 0.3), [80, 5, 5, 5, 5])
    assert found.weights.max() <= 0.8 + 1e-9


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(RecipeError, match="per site"):
        balance_sites([1.0, 2], [1.0], [1, 2])


# -- the border in the images ----------------------------------------------------------------------


def by_edges(mu, *, b0=1.0, model=None, error=0.5, counts=None):
    """Balance sites that draw ``mu`` px too large; who draws right draws b0 px off the edge."""
    mu = np.asarray(mu, dtype=float)
    model = mu.mean() if model is None else model
    counts = np.ones(len(mu)) if counts is None else counts
    errors = np.full(len(mu), error)
    return balance_sites(mu - model, errors, counts, mu + b0, errors)


def test_three_sites_are_balanced_when_their_images_tell():
    mu = np.array([0.0, 14.0, 18.0])
    found = by_edges(mu)
    assert "edges in the images" in found.reason
    assert found.weights @ mu < mu.mean() - 1
    assert found.weights.max() <= 0.4 + 1e-9
    assert found.weights.min() >= 0.25 / 3


@pytest.mark.parametrize("b0", [-2.0, 1.0, 4.0])
def test_four_of_five_on_one_side_do_not_hide_the_border(b0):
    mu = np.array([-2.0, 3.0, 12.0, 15.0, 19.0])
    ends = balance_sites(mu - mu.mean(), np.full(5, 0.5), np.ones(5)).weights
    edges = by_edges(mu, b0=b0).weights
    assert abs(edges @ mu) < abs(ends @ mu) - 0.5
    assert abs(edges @ mu) < 0.75 * mu.mean()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=3, max_size=12), st.integers(0, 2**20))
def test_edges_silence_and_crown_nobody_either(values, seed):
    draw = np.random.default_rng(seed)
    mu, counts = np.array(values), draw.integers(1, 50, len(values))
    error = draw.uniform(0.1, 3, (2, len(mu)))
    edge = np.where(draw.random(len(mu)) < 0.2, np.nan, mu + draw.normal(0, 3, len(mu)))
    found = balance_sites(mu, error[0], counts, edge, error[1])
    size = shares(counts)
    assert found.weights.sum() == pytest.approx(1)
    assert (found.weights >= 0.25 * size - 1e-9).all()
    assert (found.weights <= np.maximum(size, np.minimum(4 * size, 0.4)) + 1e-9).all()


def test_edges_that_cannot_tell_leave_the_rule_as_it_was():
    mu, errors, ones = np.array([-9.0, -8, -7, -3, 9]), np.full(5, 0.5), np.ones(5)
    plain = balance_sites(mu, errors, ones)
    unknown = np.full(5, np.nan)
    few = np.where(np.arange(5) < 2, mu, np.nan)
    reversed_edges = -mu
    far = mu + 30  # another border than the one that is drawn: a cup in its disc
    for edge in (unknown, few, reversed_edges, far):
        found = balance_sites(mu, errors, ones, edge, errors)
        assert np.array_equal(found.weights, plain.weights)
        assert found.reason == plain.reason


def test_edges_against_the_middle_of_the_sites_change_nothing():
    # By their middle the sites draw too large on average, by the edges too small.
    mu = np.array([-13.0, 3, 5, 7, 9])
    found = by_edges(mu, b0=-6)
    assert "opposite directions" in found.reason
    assert np.array_equal(found.weights, shares(np.ones(5)))


def test_sites_at_the_border_on_average_keep_their_shares():
    found = by_edges([-9.0, -3, 0, 3, 9])
    assert "near the border on average" in found.reason
    assert np.array_equal(found.weights, shares(np.ones(5)))


def test_a_site_without_edges_is_placed_by_the_model():
    mu = np.array([-2.0, 3.0, 12.0, 15.0, 19.0])
    errors, edge = np.full(5, 0.5), mu + 1
    edge[3] = np.nan
    found = balance_sites(mu - 9, errors, np.ones(5), edge, np.where(np.isnan(edge), edge, errors))
    assert found.places == pytest.approx(mu + 1)
    assert found.weights == pytest.approx(by_edges(mu).weights)


def test_edges_scale_with_the_image():
    mu = np.array([-2.0, 3.0, 12.0, 15.0, 19.0])
    small = balance_sites(mu / 8, np.full(5, 0.1), np.ones(5), (mu + 1) / 8, np.full(5, 0.1), 32)
    large = balance_sites(mu, np.full(5, 0.8), np.ones(5), mu + 1, np.full(5, 0.8), 256)
    assert small.weights == pytest.approx(large.weights)


# -- ratings ---------------------------------------------------------------------------------------


def survey_of(*offset):
    q = [[0.5, 0.5]] * len(offset)
    pairs = [[value, 0.3] for value in offset]
    return SiteSurvey.from_dict({"q": q, "cases": [8] * len(offset), "offset": pairs})


def test_absent_sites_leave_the_others_as_one_group():
    drawn = dict(zip("abcdef", [-6.0, -5, -5, -4, 0, 9], strict=True))
    counts = dict.fromkeys(drawn, 4.0)
    rating = balance_by_offset({name: survey_of(value) for name, value in drawn.items()}, counts)
    whole = rating.weights(list("abcdef"), [4] * 6)
    part = rating.weights(list("abcde"), [4] * 5)
    assert part == pytest.approx(whole[:5] / whole[:5].sum())
    again = type(rating).from_dict(rating.to_dict())
    assert again.weights(list("abcde"), [4] * 5) == pytest.approx(part)


def test_a_survey_with_edges_survives_the_checkpoint_and_names_its_evidence():
    mu = dict(zip("abcde", [-2.0, 3, 12, 15, 19], strict=True))
    surveys = {
        name: SiteSurvey.from_dict(
            {
                "q": [[0.5, 0.5]],
                "cases": [8],
                "offset": [[value - 9, 0.5]],
                "edge": [[value + 1, 0.5]],
            }
        )
        for name, value in mu.items()
    }
    assert all(
        SiteSurvey.from_dict(one.to_dict()).edge.tolist() == one.edge.tolist()
        for one in surveys.values()
    )
    rating = balance_by_offset(surveys, dict.fromkeys(mu, 4.0))
    lines = say_lines(rating, list(mu), [4] * 5)
    assert "balanced by the edges in the images" in lines[0]
    assert rating.parts[0].grouping.labels == ("smaller", "smaller", "larger", "larger", "larger")
    again = type(rating).from_dict(rating.to_dict())
    assert again.parts[0].edge.tolist() == [[value + 1, 0.5] for value in mu.values()]
    assert again.weights(list(mu), [4] * 5) == pytest.approx(rating.weights(list(mu), [4] * 5))


def test_classes_are_balanced_one_by_one_and_averaged():
    names, first, second = "abcde", [-6.0, -5, -5, 0, 9], [6.0, 5, 5, 0, -9]
    counts = dict.fromkeys(names, 4.0)
    both = {n: survey_of(x, y) for n, x, y in zip(names, first, second, strict=True)}
    rating = balance_by_offset(both, counts)
    assert len(rating.parts) == 2
    mean = (rating.parts[0].weights + rating.parts[1].weights) / 2
    assert rating.weights(list(names), [4] * 5) == pytest.approx(mean)


def test_nobody_can_be_rated():
    missing = SiteSurvey.from_dict({"q": [[None, None]], "cases": [0], "offset": [[None, None]]})
    rating = balance_by_offset({"a": missing, "b": None}, {"a": 1.0, "b": 3.0})
    assert rating.weights(["a", "b"], [1, 3]).tolist() == [0.25, 0.75]


def test_a_line_names_an_unusual_site_and_says_why():
    drawn = dict(zip("abcdef", [-6.0, -5, -5, -4, 0, 9], strict=True))
    counts = dict.fromkeys(drawn, 4.0)
    rating = balance_by_offset({name: survey_of(value) for name, value in drawn.items()}, counts)
    lines = say_lines(rating, list("abcdef"), [4] * 6)
    assert "balanced at offset +1.50 px of 6 sites" in lines[0]
    assert any("a:" in line and "px smaller than the middle" in line for line in lines[1:])
    assert len(say_lines(rating, list("abcdef"), [4] * 6, most=1)) == 3
    assert "more sites" in say_lines(rating, list("abcdef"), [4] * 6, most=1)[-1]


def test_dilated_and_eroded_masks_stand_on_either_side():
    kernel = np.ones((5, 5), np.uint8)
    shape = disc(14)
    assert contour_offset(cv2.dilate(shape, kernel), shape) > 1.5
    assert contour_offset(cv2.erode(shape, kernel), shape) < -1.5
