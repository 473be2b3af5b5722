"""Verdicts: what is told, with which certainty, and what cannot be told and why."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i import audit_arrays
from feda3i.audit.case_rows import CaseRow
from feda3i.audit.judge import FEWEST, Scale, SiteNumbers, judge_sites, site_numbers
from feda3i.quality import Offset

FEW = Offset.unknown(3, "3 cases with a contour, 8 are needed")


def site(edges=None, contour=None, error=0.4, dice=0.9, radius=40.0):
    """Return a site of sixteen cases with an offset by each estimator, px at 256."""
    answers = {}
    for name, value, size in (("edges", edges, radius), ("contour", contour, math.nan)):
        if value is not None:
            is_made = isinstance(value, Offset)
            answers[name] = value if is_made else Offset(value, error, 16, radius=size)
    return SiteNumbers(16, answers, dice)


def judged(sites, trusted=None, **scale):
    """Judge sites by name, or those of a list by their place in it."""
    sites = sites if isinstance(sites, dict) else {str(k): one for k, one in enumerate(sites)}
    said, found = judge_sites(sites, class_name="lesion", scale=Scale(**scale), trusted=trusted)
    return said, {one.site: one for one in found}


FIVE = {"a": -0.6, "b": 1.6, "c": 3.4, "d": -2.1, "e": -1.5}
"""Edges of five real experts beside trusted masks, who differ by less than 3 px of 256."""


def test_words_follow_the_interval_and_the_test():
    overall, found = judged({name: site(value, error=0.5) for name, value in FIVE.items()})
    assert "do differ (p < 0.001)" in overall.said
    assert [found[name].verdict for name in "cd"] == ["larger", "smaller"]
    assert found["a"].verdict in ("slightly", "about the same")
    assert found["c"].reason == "draws 3.2 px (2.4 to 4.1) larger than the others"
    assert found["c"].low < found["c"].relative < found["c"].high
    mean = np.mean(list(FIVE.values()))
    assert found["c"].relative == pytest.approx(3.4 - mean, abs=0.05)
    assert found["c"].sure > 0.999


def test_sites_that_differ_by_chance_are_about_the_same():
    overall, found = judged(map(site, (0.1, -0.3, 0.2, 0.4)))
    assert "no more than by chance" in overall.said
    assert "all are wrong in the same way" in overall.said
    assert {one.verdict for one in found.values()} == {"about the same"}
    assert all("within" in one.reason for one in found.values())
    # Many sites alike: the interval of one in twenty excludes zero, and the test knows.
    draw = np.random.default_rng(0)
    _, many = judged([site(0.4 * draw.standard_normal()) for _ in range(40)])
    assert {one.verdict for one in many.values()} == {"about the same"}


def test_a_sure_difference_that_does_not_matter_is_slight_and_told_in_the_unit_of_the_audit():
    places = {"a": 1.0, "b": 0.0, "c": -1.0}
    _, found = judged({name: site(value, error=0.1) for name, value in places.items()})
    assert found["a"].verdict == found["c"].verdict == "slightly"
    assert found["a"].reason.startswith("draws slightly larger than the others, 1.0 px (")
    _, small = judged({name: site(v, error=0.1, radius=12.0) for name, v in places.items()})
    assert small["a"].verdict == "larger"  # 5 % of a radius of 12 is 0.6
    _, in_mm = judged(map(site, (4.0, 0.0, -4.0)), unit="mm", pixel=0.25)
    assert in_mm["0"].reason.startswith("draws 1.0 mm (")
    assert in_mm["0"].verdict == "larger"


def test_trusted_masks_make_it_absolute_and_their_b0_is_told():
    trusted = {"edges": Offset(2.4, 0.3, 32, radius=40.0)}
    overall, found = judged({"a": site(7.4), "b": site(7.0)}, trusted)
    assert found["a"].reason.startswith("draws 5.0 px (4.0 to 6.0) larger than the trusted masks")
    assert "b0 of the trusted masks: +2.4 px (standard error 0.3)" in overall.said
    _, one = judged({"a": site(2.6)}, trusted)
    assert one["a"].verdict == "about the same"
    _, nobody = judged({"a": site(2.6)}, {"edges": FEW})
    assert nobody["a"].verdict == "cannot tell"
    assert "trusted masks: 3 cases" in nobody["a"].reason


def test_a_model_adds_where_it_agrees_and_never_overrules():
    places = (-8.0, -3.0, 0.0, 3.0, 8.0)
    models = {"alone": [None] * 5, "agrees": [v - 2.5 for v in places]}
    models["opposes"] = [-v for v in places]
    width = {}
    for name, model in models.items():
        both = zip(places, model, strict=True)
        _, found = judged([site(v, told, error=1.0) for v, told in both])
        width[name] = found["4"].high - found["4"].low
        assert found["4"].verdict == "larger"
        assert found["0"].verdict == "smaller"
    assert width["agrees"] < 0.8 * width["alone"]
    assert width["opposes"] == pytest.approx(width["alone"], rel=0.1)


def test_a_site_without_edges_is_placed_by_the_model():
    sites = {f"{k}": site(v, v - 2.0) for k, v in enumerate((-6.0, -2.0, 2.0, 6.0))}
    sites["blind"] = site(FEW, 8.0)
    _, found = judged(sites)
    assert found["blind"].relative == pytest.approx(8.0, abs=1.0)
    assert found["blind"].silent == {"edges": FEW.reason}
    assert "edges" not in found["blind"].by_estimator
    assert found["3"].by_estimator["contour"] == pytest.approx(6.0, abs=2.0)


@pytest.mark.parametrize(
    ("sites", "why"),
    [
        ({"a": site(3.0)}, "no other site to compare it with"),
        ({"a": site(FEW), "b": site(1.0), "c": site(0.0)}, "8 are needed"),
        ({"a": site(contour=3.0, dice=0.3), "b": site(contour=1.0, dice=0.2)}, "too weak"),
        ({"a": site(0.0, error=9.0), "b": site(2.0, error=9.0)}, "too few cases"),
    ],
)
def test_what_cannot_be_told_says_why(sites, why):
    _, found = judged(sites)
    assert found["a"].verdict == "cannot tell"
    assert why in found["a"].reason
    overall, _ = judged([site(v, radius=24.0) for v in (-22.0, -28.0, -20.0)])
    assert "border of something else" in overall.said


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=8), st.floats(0.1, 5), st.booleans())
def test_a_verdict_never_contradicts_its_interval(offsets, error, trusted):
    zero = {"edges": Offset(0.5, 0.2, 32, radius=40.0)} if trusted else None
    overall, found = judged([site(v, error=error) for v in offsets], zero)
    for one in found.values():
        excludes = one.low > 0 or one.high < 0
        if one.verdict in ("larger", "smaller", "slightly"):
            assert excludes
            assert trusted or overall.chance <= 0.05
            assert ("larger" in one.reason) == (one.relative > 0)
        elif excludes and not trusted:
            assert overall.chance > 0.05


def row(offset, is_drawn=True, is_found=True, dice=0.9):
    return CaseRow(f"case {offset}", "A", 1, offset, 1.0, dice, is_drawn, is_found)


def test_a_site_s_numbers_come_from_its_cases():
    rows = [row(float(v)) for v in range(10)] + [row(math.nan, is_drawn=False)]
    found = site_numbers(11, rows, Scale("mm", 0.5))
    assert (found.cases, found.answers["contour"].offset) == (11, 9.0)  # 4.5 mm of half a pixel
    assert found.dice == 0.9
    few = site_numbers(11, rows[: FEWEST - 1], Scale())
    assert f"{FEWEST} are needed" in few.answers["contour"].reason
    blind = site_numbers(10, [row(1.0, is_found=k < 3) for k in range(10)], Scale())
    assert "finds nothing in 70 %" in blind.answers["contour"].reason
    assert site_numbers(3, [], Scale()).answers == {}


def test_arrays_are_audited_without_a_folder_or_a_recipe():
    """Discs of known offsets; in millimetres, beside trusted masks, and with a model."""
    yy, xx = np.mgrid[:64, :64] - 32
    away = np.stack([np.hypot(yy, xx + k % 8) for k in range(24)])
    offsets = np.repeat([0.0, 3.0, -2.0], 8)
    images, truth = np.where(away < 14, 80, 160), away < 14
    masks, sites = away < 14 + offsets[:, None, None], np.repeat(["a", "b", "c"], 8).tolist()
    good = (images[:12], truth[:12])
    for more, scale in (({}, 1.0), ({"spacing": np.full((24, 2), 0.5)}, 0.5)):
        found = audit_arrays(images, masks, sites, predicted=truth, trusted=good, **more)
        told = [one.relative for one in found.findings]
        assert told == pytest.approx([0.0, 3.0 * scale, -2.0 * scale], abs=0.6)
        assert [one.verdict for one in found.findings][1:] == ["larger", "smaller"]
        assert found.is_absolute
        assert found.unit == ("px" if scale == 1.0 else "mm")
