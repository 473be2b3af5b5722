"""Verdicts: what is told, with which certainty, and what cannot be told and why."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from feda3i.audit.case_rows import CaseRow
from feda3i.audit.interval import (
    beside_middle,
    differ_by_chance,
    interval,
    normal_draws,
    reliability,
    resample,
)
from feda3i.audit.judge import FEWEST, SiteNumbers, judge_sites, site_numbers
from feda3i.quality.measure import Offset
from feda3i.seeding import rng

ASK = {"class_name": "lesion", "unit": "px", "margin": 1.0}


def site(mean, spread=1.0, cases=16, found=1.0, dice=0.9, name=0, **more):
    values = mean + spread * rng(3, "site", name, cases).standard_normal(cases)
    offsets = {"contour": values}
    offsets.update({key: value * np.ones(cases) for key, value in more.items()})
    return SiteNumbers(cases, cases, offsets, {}, 1.0, spread, found, dice)


def verdicts(sites, **more):
    overall, findings = judge_sites(sites, **{**ASK, **more})
    return overall, {one.site: one for one in findings}


def test_beside_the_middle_of_all_sites():
    values = rng(0, "beside").standard_normal((5, 7))
    expected = [[v - sorted(row)[3] for v in row] for row in values.tolist()]
    np.testing.assert_allclose(beside_middle(values), expected)
    assert beside_middle(np.array([2.0, 2.0, 2.0, 5.0])).tolist() == [0.0, 0.0, 0.0, 3.0]


def test_the_bootstrap_covers_the_median_as_often_as_it_says():
    hits = 0
    for trial in range(150):
        values = rng(1, "cover", trial).standard_normal(16)
        low, high = interval(resample([values], trial, "t", draws=400))[0]
        hits += low <= 0 <= high
    assert 0.9 <= hits / 150 <= 1.0


def test_resampling_repeats_and_is_the_same_in_parts(monkeypatch):
    values = [rng(0, "a").standard_normal(9), rng(0, "b").standard_normal(5)]
    whole = resample(values, 0, "t", draws=50)
    assert whole.shape == (50, 2)
    np.testing.assert_array_equal(whole, resample(values, 0, "t", draws=50))
    assert not np.array_equal(whole, resample(values, 1, "t", draws=50))


def test_cochran_s_q_against_its_formula():
    offset, error = np.array([0.0, 1.0, 3.0]), np.array([1.0, 0.5, 1.0])
    weight = 1 / error**2
    q = (weight * (offset - (weight * offset).sum() / weight.sum()) ** 2).sum()
    assert differ_by_chance(offset, error) == pytest.approx(stats.chi2.sf(q, 2))
    assert differ_by_chance(np.array([1.0]), np.array([1.0])) == 1.0
    assert differ_by_chance(np.ones(3), np.zeros(3)) == 1.0
    assert reliability(np.array([-3.0, 0.0, 3.0]), np.ones(3)) == pytest.approx(1 - 1 / 9)
    assert reliability(np.zeros(3), np.ones(3)) == 0.0


def test_larger_smaller_and_in_line():
    sites = {"big": site(4, name=1), "small": site(-4, name=2)}
    sites |= {f"plain-{k}": site(0, 0.5, name=10 + k) for k in range(4)}
    overall, found = verdicts(sites)
    assert found["big"].verdict == "larger"
    assert found["small"].verdict == "smaller"
    assert [found[f"plain-{k}"].verdict for k in range(4)] == ["in line"] * 4
    assert found["big"].low < found["big"].relative < found["big"].high
    assert found["big"].relative == pytest.approx(4, abs=1)
    assert found["big"].sure > 0.99
    assert overall.chance < 0.001
    assert overall.reliability > 0.8
    assert "do differ" in overall.said


def test_sites_that_draw_alike_are_not_told_apart():
    overall, found = verdicts({f"s{k}": site(3, 0.5, name=k) for k in range(6)})
    assert overall.chance > 0.05
    assert "no more than by chance" in overall.said
    assert "nor can anyone tell whether all are wrong in the same way" in overall.said
    assert {one.verdict for one in found.values()} == {"in line"}


def test_too_few_cases_a_weak_model_and_nobody_to_compare_with():
    base = {f"s{k}": site(0, name=k) for k in range(3)}
    _, found = verdicts({**base, "few": site(5, cases=FEWEST - 1)})
    assert found["few"].verdict == "cannot tell"
    assert found["few"].reason == (
        f"{FEWEST - 1} of its {FEWEST - 1} cases could be measured, {FEWEST} are needed"
    )
    assert found["few"].relative is None
    assert found["s0"].relative is not None
    _, found = verdicts({**base, "blind": site(5, found=0.4)})
    assert found["blind"].reason == "the model finds nothing in 60 % of its cases"
    overall, found = verdicts({name: site(0, dice=0.3, name=1) for name in base})
    assert {one.verdict for one in found.values()} == {"cannot tell"}
    assert "too weak" in overall.said
    assert "0.30" in found["s0"].reason
    overall, found = verdicts({name: site(0, found=0.2) for name in base})
    assert "it finds nothing in 80 %" in overall.said
    _, found = verdicts({"alone": site(5)})
    assert "no other site to compare it with" in found["alone"].reason


def test_cases_that_differ_too_much_are_no_verdict():
    sites = {f"s{k}": site(0, 0.3, name=k) for k in range(4)}
    _, found = verdicts({**sites, "wild": site(1, 12, name=9)})
    assert found["wild"].verdict == "cannot tell"
    assert "the interval is too wide" in found["wild"].reason


def test_two_numbers_per_site_are_enough():
    two = {"a": (0.0, 0.2), "b": (0.3, 0.2), "c": (5.0, 0.3), "d": (-0.2, 0.2)}
    answers = {name: Offset(*pair, 8) for name, pair in two.items()}
    answers["e"] = Offset.unknown(8, "it sent no offset")
    sites = {
        name: SiteNumbers(8, 8, answers={"contour": answer}) for name, answer in answers.items()
    }
    _, found = verdicts(sites)
    assert found["c"].verdict == "larger"
    assert found["c"].relative == pytest.approx(4.85)
    assert found["a"].verdict == "in line"
    assert found["e"].reason == "it sent no offset"
    draws = normal_draws(np.array([1.0]), np.array([2.0]), 0, "t")
    assert draws.std() == pytest.approx(2, rel=0.1)


def test_trusted_masks_are_zero_even_if_all_sites_draw_larger():
    sites = {f"s{k}": site(6, 0.5, name=k) for k in range(4)}
    trusted = {"contour": 1 + 0.3 * rng(0, "good").standard_normal(30)}
    _, found = verdicts(sites, trusted=trusted)
    assert {one.verdict for one in found.values()} == {"larger"}
    assert found["s0"].relative == pytest.approx(5, abs=0.6)
    assert "than the trusted masks" in found["s0"].reason
    _, one = verdicts({"alone": site(6, 0.5)}, trusted=trusted)
    assert one["alone"].verdict == "larger"


def test_a_second_estimator_confirms_or_contradicts():
    values = {"a": -3.0, "b": -1.0, "c": 0.0, "d": 1.0, "e": 3.0}
    agree = {n: site(v, 0.3, name=k, edge=2 * v) for k, (n, v) in enumerate(values.items())}
    overall, found = verdicts(agree)
    assert overall.agreement == pytest.approx(1.0)
    assert found["e"].by_estimator["edge"] == pytest.approx(6.0)
    against = {n: site(v, 0.3, name=k, edge=-v) for k, (n, v) in enumerate(values.items())}
    overall, found = verdicts(against)
    assert overall.agreement == pytest.approx(-1.0)
    assert "agree badly" in overall.said
    assert found["e"].verdict == "cannot tell"
    assert "the estimator edge finds the opposite" in found["e"].reason


def test_a_second_estimator_may_be_silent():
    sites = {f"s{k}": site(2.0 * k, 0.3, name=k, edge=2.0 * k) for k in range(5)}
    sites["s4"].offsets["edge"] = np.zeros(0)
    overall, found = verdicts(sites)
    assert overall.agreement == pytest.approx(1.0)  # over the four sites that both can tell
    assert found["s4"].by_estimator["edge"] is None
    assert found["s4"].silent == {"edge": "it can measure 0 cases, 2 are needed"}
    assert found["s4"].verdict == "larger"
    sites["s3"].offsets["edge"] = np.zeros(0)
    assert verdicts(sites)[0].agreement is None


def with_answers(answers):
    """Return sites at 0, 1, 2, ... px by contour, whose edges say something else."""
    return {
        f"s{k}": replace(site(float(k), 0.3, name=k), answers={"edges": answer})
        for k, answer in enumerate(answers)
    }


def test_only_a_certain_offset_of_the_whole_site_contradicts():
    for error, verdict in [(0.5, "cannot tell"), (5.0, "larger")]:
        edges = [Offset(float(k), 0.2, 16) for k in range(5)]
        edges[4] = Offset(-2.0, error, 16)
        _, found = verdicts(with_answers(edges))
        assert found["s4"].verdict == verdict
        assert found["s4"].by_estimator["edges"] == pytest.approx(-3.0)  # beside the median, 1


def test_a_site_that_the_first_estimator_cannot_judge_keeps_the_second_opinion():
    sites = with_answers([Offset(float(k), 0.2, 16) for k in range(5)])
    sites["s4"] = replace(sites["s4"], found=0.1)
    _, found = verdicts(sites)
    assert found["s4"].verdict == "cannot tell"
    assert found["s4"].by_estimator == {"contour": None, "edges": 2.0}


def test_offsets_of_whole_sites_may_judge_alone_even_beside_a_weak_model():
    answers = [Offset(0.1 * k, 0.2, 16) for k in range(4)] + [Offset(5.0, 0.3, 16)]
    sites = {
        f"s{k}": SiteNumbers(16, 16, answers={"edges": answer}, dice=0.1)
        for k, answer in enumerate(answers)
    }
    _, found = verdicts(sites)
    assert found["s4"].verdict == "larger"
    assert found["s0"].verdict == "in line"
    # With trusted masks they start from those already: nothing is taken off again.
    _, found = verdicts(sites, trusted={"edges": np.full(8, 3.0)})
    assert found["s4"].relative == 5.0


def test_numbers_of_rows():
    def row(offset, is_drawn=True, is_found=True):
        dice = 0.8 if is_drawn and is_found else 0.0
        return CaseRow("x", "A", 1, {"contour": offset}, 1.5, dice, is_drawn, is_found)

    rows = [row(1.0), row(2.0), row(4.0), row(math.nan, is_found=False), row(math.nan, False)]
    found = site_numbers(rows)
    assert (found.cases, found.measured) == (5, 3)
    assert found.offsets["contour"].tolist() == [1, 2, 4]
    assert found.found == 0.75
    assert found.spread == pytest.approx((3.0 - 1.5) / 1.349)
