"""Two groups: guards, seeds, votes, scaling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.methods import two_groups
from feda3i.methods.two_groups import high_group, vote_high_group

CLOUDS = np.array([[0.1, 0.2], [0.15, 0.1], [0.2, 0.15], [0.12, 0.18], [0.9, 0.8], [0.8, 0.9]])
NOISY = [False, False, False, False, True, True]


@pytest.mark.parametrize(
    "points", [[], [0.3], [0.3, 0.3], np.zeros((5, 2)), np.full(1000, 0.7), [1e9, 1e9 + 1e-7]]
)
def test_nothing_to_tell_apart_is_nobody(points):
    points = np.asarray(points, dtype=float)
    assert not high_group(points, 0).any()
    assert len(high_group(points, 0)) == len(points)


def test_many_points_are_classified_by_a_fit_on_some(monkeypatch):
    points = np.concatenate([np.linspace(0, 0.2, 900), np.linspace(3, 3.2, 100)])
    monkeypatch.setattr(two_groups, "_CHUNK", 70)
    np.testing.assert_array_equal(high_group(points, 1, most=50), points > 1)


@given(st.floats(1e-3, 1e3), st.floats(-100, 100), st.integers(0, 1))
@settings(max_examples=20, deadline=None)
def test_the_vote_knows_no_unit_of_a_column(scale, shift, column):
    changed = CLOUDS.copy()
    changed[:, column] = scale * changed[:, column] + shift
    assert vote_high_group(changed).tolist() == vote_high_group(CLOUDS).tolist() == NOISY


def test_missing_entries_take_the_smallest_of_their_column():
    gaps, filled = CLOUDS.copy(), CLOUDS.copy()
    gaps[1, 1], filled[1, 1] = np.nan, np.delete(CLOUDS[:, 1], 1).min()
    np.testing.assert_array_equal(vote_high_group(gaps), vote_high_group(filled))
    only = np.column_stack([CLOUDS, np.full(6, np.nan)])
    assert vote_high_group(only).tolist() == NOISY
    assert not vote_high_group(np.full((3, 2), np.nan)).any()


def test_the_most_frequent_set_wins_and_the_first_on_ties(monkeypatch):
    sets = {"a": [True, False], "b": [False, True], "c": [False, False]}

    def vote(order):
        monkeypatch.setattr(two_groups, "high_group", lambda _, seed: np.array(sets[order[seed]]))
        return vote_high_group(np.zeros((2, 1)), len(order)).tolist()

    assert vote("abbab") == sets["b"]
    assert vote("abcba") == sets["a"]
    assert vote("cbabc") == sets["c"]
