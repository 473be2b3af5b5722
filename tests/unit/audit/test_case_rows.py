"""The gap between two contours, against shapes whose distance is known; rows of cases, looks."""

import math
from dataclasses import replace

import numpy as np
import pytest

from feda3i.audit.case_rows import CaseRow, contour_gap, measure_cases, misfit, second_looks
from feda3i.core.cases import Cases
from feda3i.errors import DataError
from feda3i.quality import contour_offset
from feda3i.quality.objects import Counts


def disc(radius, side=64, centre=None):
    row, column = centre or (side // 2, side // 2)
    rows, columns = np.indices((side, side))
    return np.hypot(rows - row, columns - column) <= radius


@pytest.mark.parametrize("wide", [12.0, 18.5, 29.0])
@pytest.mark.parametrize("narrow", [12.0, 17.0, 26.0])
def test_between_discs_it_is_the_difference_of_radii(wide, narrow):
    drawn, predicted = disc(wide), disc(narrow)
    offset, wobble = contour_gap(drawn, predicted)
    assert offset == pytest.approx(wide - narrow, abs=0.35)
    assert offset == pytest.approx(contour_offset(drawn, predicted), abs=0.35)
    assert wobble < 0.5
    assert contour_gap(drawn, predicted, (0.5, 0.5)) == pytest.approx((offset / 2, 0), abs=0.25)


def test_a_moved_disc_wobbles_has_no_offset_and_exchanging_the_masks_turns_the_sign():
    offset, wobble = contour_gap(disc(20), disc(20, centre=(38, 32)))
    assert abs(offset) < 0.5
    assert wobble == pytest.approx(6 / math.sqrt(2), rel=0.1)  # 6 cos(angle) around the circle
    for one, two, shift in ((8, 24, 0), (13, 11, -6), (24, 20, 5)):
        there = contour_gap(disc(one), disc(two, centre=(32 + shift, 32)))
        back = contour_gap(disc(two, centre=(32 + shift, 32)), disc(one))
        assert there == pytest.approx((-back[0], back[1]), abs=1e-5)


def test_volumes_are_measured_too_and_what_has_no_contour_has_no_offset():
    grid = np.indices((24, 24, 24)) - 11.5
    ball = lambda radius: np.sqrt((grid**2).sum(axis=0)) <= radius
    assert contour_gap(ball(9), ball(6))[0] == pytest.approx(3, abs=0.3)
    nothing, everything = np.zeros((8, 8)), np.ones((8, 8))
    for pair in [(nothing, disc(3, 8)), (disc(3, 8), everything)]:
        assert np.isnan(contour_gap(*pair)).all()
    with pytest.raises(DataError, match="one shape"):
        contour_gap(np.ones((3, 3)), np.ones((4, 4)))


def test_rows_say_what_was_drawn_and_found():
    masks = np.stack([disc(9, 32), np.zeros((32, 32)), disc(5, 32)]).astype(np.uint8)
    cases = Cases(("a", "b", "c"), np.zeros((3, 32, 32, 1), np.uint8), masks)
    guess = np.stack([disc(6, 32), disc(4, 32), np.zeros((32, 32))]).astype(np.uint8)
    rows = measure_cases(cases, ["A", "A", "B"], guess)
    assert [row.is_drawn for row in rows] == [True, False, True]
    assert [row.is_found for row in rows] == [True, True, False]
    offsets = pytest.approx([3, math.nan, math.nan], abs=0.3, nan_ok=True)
    assert [row.offset for row in rows] == offsets
    assert [row.misfit for row in rows] == pytest.approx([0.0, 1.0, 1.0], abs=0.04)  # A draws large


def row(case, offset, wobble=0.5, dice=0.9, is_drawn=True, is_found=True, misfit=0.1):
    return CaseRow(case, "A", 1, offset, wobble, dice, is_drawn, is_found, misfit)


def test_cases_that_fit_least_come_first_and_at_most_one_in_twenty_is_to_be_looked_at():
    rows = [row(f"usual-{k}", 5 + 0.1 * k) for k in range(54)]
    rows += [
        row("far", 14.0, misfit=0.5),
        row("wobbly", 5.3, wobble=4.0, misfit=0.4),
        row("apart", -20.0, dice=0.0, misfit=1.9),
        row("unfound", math.nan, math.nan, 0.0, is_found=False, misfit=1.0),
        row("undrawn", math.nan, math.nan, 0.0, is_drawn=False, misfit=1.0),
        row("both empty", math.nan, math.nan, math.nan, False, False, misfit=math.nan),
    ]
    looks = second_looks(rows, "px")
    first = [one.row.case for one in looks[:5]]
    assert first == ["apart", "undrawn", "unfound", "far", "wobbly"]
    assert "both empty" not in {one.row.case for one in looks}
    assert looks[3].reason == "drawn 6.4 px larger than this site usually does"
    assert looks[4].reason.startswith("the contour departs")
    assert [one.is_unusual for one in looks] == [True] * 3 + [False] * 56
    assert not any(one.is_unusual for one in second_looks(rows[:54], "px"))


def test_a_reason_names_the_object_that_is_missing_or_has_another_class():
    rows = [row(f"usual-{k}", 0.0) for k in range(20)]
    missed = replace(row("missed", 0.0, misfit=0.5), objects=Counts(2, 1, 1, 0, 1, 0))
    swapped = replace(row("swapped", 0.0, dice=0.0, misfit=0.9), objects=Counts(1, 1, 1, 1, 1, 0))
    looks = second_looks([*rows, missed, swapped], "px")
    assert [(one.row.case, one.reason) for one in looks[:2]] == [
        ("swapped", "an object has another class than the model gives it"),
        ("missed", "an object that the model sees was not drawn"),
    ]


@pytest.mark.parametrize(
    ("drawn", "habit", "expected"),
    [
        (disc(10), 0.0, 0.0),
        (disc(14), 4.0, 0.0),  # drawn 4 px too large, as ever
        (disc(6), -4.0, 0.0),
        (disc(6), 0.0, 1 - 0.6**2),  # areas go with the square of the radius
        (disc(10), 4.0, 1 - (10 / 14) ** 2),
        (disc(10, centre=(10, 10)), 0.0, 2.0),
        (disc(-1), 0.0, 1.0),
        (disc(10), -20.0, 0.0),  # a habit that leaves nothing is none
    ],
)
def test_a_misfit_is_the_area_that_differs_beside_the_habit(drawn, habit, expected):
    assert misfit(drawn, disc(10), habit) == pytest.approx(expected, abs=0.12)
    sized = misfit(drawn, disc(10), 0.5 * habit, (0.5, 0.5))
    assert sized == pytest.approx(misfit(drawn, disc(10), habit))
