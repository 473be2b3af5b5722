"""The gap between two contours, against shapes whose distance is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.audit.case_rows import CaseRow, measure_cases
from feda3i.audit.estimators import (
    case_offset,
    check_estimators,
    contour_gap,
    edges_of_sites,
)
from feda3i.core.cases import Cases
from feda3i.errors import DataError, RecipeError
from feda3i.quality import contour_offset


def disc(radius, side=96, centre=(47.5, 47.5)):
    rows, columns = np.indices((side, side))
    return np.hypot(rows - centre[0], columns - centre[1]) <= radius


@pytest.mark.parametrize("wide", [12.0, 18.5, 30.0])
@pytest.mark.parametrize("narrow", [12.0, 17.0, 26.0])
def test_between_discs_it_is_the_difference_of_radii(wide, narrow):
    offset, wobble = contour_gap(disc(wide), disc(narrow))
    assert offset == pytest.approx(wide - narrow, abs=0.35)
    assert wobble < 0.5


def test_it_agrees_with_the_survey_s_offset():
    for wide, narrow in [(20, 14), (14, 20), (25, 24)]:
        drawn, predicted = disc(wide), disc(narrow)
        ours = contour_gap(drawn, predicted)[0]
        assert ours == pytest.approx(contour_offset(drawn, predicted), abs=0.35)


@given(st.integers(8, 30), st.integers(8, 30), st.integers(-6, 6))
@settings(derandomize=True, max_examples=30, deadline=None)
def test_exchanging_the_masks_turns_the_sign(one, two, shift):
    a, b = disc(one), disc(two, centre=(47.5 + shift, 47.5))
    there, back = contour_gap(a, b), contour_gap(b, a)
    assert there[0] == pytest.approx(-back[0], abs=1e-5)
    assert there[1] == pytest.approx(back[1], abs=1e-5)


def test_a_moved_disc_wobbles_and_has_no_offset():
    offset, wobble = contour_gap(disc(20), disc(20, centre=(53.5, 47.5)))
    assert abs(offset) < 0.5
    assert wobble == pytest.approx(6 / math.sqrt(2), rel=0.1)  # 6 cos(angle) around the circle


def test_spacing_gives_the_unit_also_where_pixels_are_not_square():
    assert contour_gap(disc(20), disc(14), (0.5, 0.5))[0] == pytest.approx(3, abs=0.2)
    wide, narrow = np.zeros((2, 60, 60))
    wide[10:50, 10:50] = 1
    narrow[20:40, 20:40] = 1
    tall = contour_gap(wide, narrow, (1.0, 0.1))[0]
    assert 1 < tall < 10  # 10 px are 10 above and below, 1 at the sides


def test_what_has_no_contour_has_no_offset():
    nothing, everything = np.zeros((8, 8)), np.ones((8, 8))
    for pair in [(nothing, disc(3, 8)), (disc(3, 8), everything), (nothing, everything)]:
        assert np.isnan(contour_gap(*pair)).all()
    with pytest.raises(DataError, match="one shape"):
        contour_gap(np.ones((3, 3)), np.ones((4, 4)))


def test_volumes_are_measured_too():
    grid = np.indices((24, 24, 24)) - 11.5
    ball = lambda radius: np.sqrt((grid**2).sum(axis=0)) <= radius
    assert contour_gap(ball(9), ball(6))[0] == pytest.approx(3, abs=0.3)


def test_rows_say_what_was_drawn_found_and_seen():
    masks = np.stack([disc(9, 32, (15.5, 15.5)), np.zeros((32, 32)), disc(5, 32, (15.5, 15.5))])
    images = np.zeros((3, 32, 32, 1), np.uint8)
    cases = Cases(("a", "b", "c"), images, masks.astype(np.uint8))
    guess = np.stack([disc(6, 32, (15.5, 15.5)), disc(4, 32, (15.5, 15.5)), np.zeros((32, 32))])
    rows = measure_cases(cases, ["A", "A", "B"], guess.astype(np.uint8), seen=[True, False, False])
    assert [type(row) for row in rows] == [CaseRow] * 3
    assert [(row.is_drawn, row.is_found, row.is_seen) for row in rows] == [
        (True, True, True),
        (False, True, False),
        (True, False, False),
    ]
    assert rows[0].offsets["contour"] == pytest.approx(3, abs=0.3)
    assert math.isnan(rows[1].offsets["contour"])
    assert math.isnan(rows[2].offsets["contour"])


def test_estimators_are_found_by_name():
    assert check_estimators(["contour", "contour"]) == ("contour",)
    with pytest.raises(RecipeError, match="did you mean 'contour'"):
        check_estimators(["contours"])
    image = np.zeros((4, 4, 1))
    assert math.isnan(case_offset("contour", image, np.eye(4) > 0, None, None))


def test_edges_need_no_model_and_know_the_size_of_a_pixel():
    yy, xx = np.mgrid[:96, :96] - 48
    away = np.hypot(yy, xx)
    image = np.where(away < 25, 80, 160).astype(np.uint8)[..., None]
    assert case_offset("edges", image, away < 29, None, None) == pytest.approx(4, abs=0.5)
    half = case_offset("edges", image, away < 29, None, [0.5, 0.5])
    assert half == pytest.approx(2, abs=0.25)
    assert math.isnan(case_offset("edges", np.zeros_like(image), away < 29, None, None))


def test_edges_of_a_site_are_in_pixels_at_256():
    yy, xx = np.mgrid[:64, :64] - 32
    away = np.stack([np.hypot(yy, xx + k) for k in range(8)])
    images = np.where(away < 14, 80, 160).astype(np.uint8)[..., None]
    cases = Cases(tuple("abcdefgh"), images, (away < 16).astype(np.uint8))
    (found,) = edges_of_sites(cases, ["A"] * 8, 1)
    assert found["A"].offset == pytest.approx(8, abs=2)
    assert found["A"].radius == pytest.approx(64, abs=6)
    blank = replace(cases, images=np.full_like(images, 90))
    (nothing,) = edges_of_sites(blank, ["A"] * 8, 1)
    assert nothing["A"].reason == "no border stands out in the images"
