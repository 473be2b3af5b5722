"""Objects left out, made up and of another class: counts, intervals and who stands out."""

from dataclasses import astuple, replace

import numpy as np
import pytest

from feda3i.noise.object_noise import Addition, Omission, Swap
from feda3i.quality.objects import (
    Counts,
    count_case,
    count_logits,
    flags,
    judge_objects,
)
from feda3i.seeding import rng

SIDE = 128
SITES = [f"site-{k}" for k in range(7)]


def scene(*scope):
    """Return six squares of two classes, somewhere each in a field of its own."""
    draw, mask = rng(0, "scene", *scope), np.zeros((SIDE, SIDE), np.uint8)
    for k in range(6):
        row = k // 3 * (SIDE // 2) + draw.integers(4, 20)
        col = k % 3 * (SIDE // 3) + draw.integers(4, 20)
        mask[row : row + 10 + k, col : col + 12] = 1 + k % 2
    return mask


def boxes(*places, value=1, side=64):
    """Return a mask with boxes from (row, column) to (row, column)."""
    mask = np.zeros((side, side), np.uint8)
    for top, left, bottom, right in places:
        mask[top:bottom, left:right] = value
    return mask


ONE = boxes((8, 8, 18, 18))


@pytest.mark.parametrize(
    ("drawn", "seen", "expected"),
    [
        (ONE, ONE, Counts(1, 1, 1, 0, 1, 0)),
        (0 * ONE, ONE, Counts(1, 0, 0, 0, 1, 1)),
        (ONE, 0 * ONE, Counts(0, 1, 0, 0, 1, 0)),
        (2 * ONE, ONE, Counts(1, 1, 1, 1, 1, 0)),
        (0 * ONE, 0 * ONE, Counts(cases=1)),
        # 10 x 10 boxes moved by 8 share 20 of 180 pixels (IoU 0.11), by 9 they share 10 of 190
        (ONE, np.roll(ONE, 8, 0), Counts(1, 1, 1, 0, 1, 0)),
        (ONE, np.roll(ONE, 9, 0), Counts(1, 1, 0, 0, 1, 0)),
        # parts that touch at a corner are one object; specks below 15 px at 256 are none
        (boxes((8, 8, 12, 12), (12, 12, 16, 16)), 0 * ONE, Counts(0, 1, 0, 0, 1, 0)),
        (boxes((0, 0, 2, 7), side=256), boxes((0, 0, 3, 5), side=256), Counts(1, 0, 0, 0, 1, 0)),
        (ONE[None].repeat(9, 0), ONE[None].repeat(9, 0), Counts(1, 1, 1, 0, 1, 0)),  # volumes
        # two objects of the site on one of the model's: the larger IoU is the pair
        (ONE - boxes((12, 8, 14, 18)), ONE, Counts(1, 2, 1, 0, 1, 0)),
    ],
)
def test_objects_of_a_case_are_counted(drawn, seen, expected):
    assert count_case(drawn, seen) == expected


def federation(noisy, model, cases=20):
    """Return each site's counts; some sites have noise, and the model errs alike everywhere."""
    found = {}
    for site in SITES:
        total = Counts()
        for k in range(cases):
            truth = scene(site, k)
            drawn = noisy.get(site, lambda mask, draw: mask)(truth, rng(k, site, "noise"))
            seen = Omission(model, 0.0)(truth, rng(k, site, "blind"))
            total += count_case(drawn, Addition(model)(seen, rng(k, site, "dreams")))
        found[site] = total
    return found


def flagged(counts):
    return {(one.site, one.kind) for one in judge_objects(counts) if one.is_flagged}


@pytest.mark.parametrize("model", [0.0, 0.15])
@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (Omission(0.4, 0.0), {"missing"}),
        (Omission(0.0, 0.4), {"empty", "missing"}),
        (Addition(1.0), {"extra"}),
        (Swap(0.3), {"swapped"}),
        (None, set()),
    ],
)
def test_the_site_with_planted_errors_stands_out_and_no_other(noise, expected, model):
    counts = federation({"site-3": noise} if noise else {}, model)
    assert flagged(counts) == {("site-3", kind) for kind in expected}


GOOD = Counts(predicted=50, drawn=50, matched=48, wrong=1, cases=20, empty=0)
BAD = replace(GOOD, matched=30)
PERFECT = Counts(50, 50, 50, 0, 20, 0)


@pytest.mark.parametrize(
    ("others", "expected", "said"),
    [
        ([BAD, GOOD, GOOD, GOOD], {"missing", "extra"}, "misses 40 % (28 to 54 %) of the objects"),
        ([BAD, GOOD, GOOD], {"missing", "extra"}, "model sees; the middle one of three sites 4 %"),
        ([BAD, GOOD], set(), "too few sites to compare with"),
        ([replace(PERFECT, matched=49), PERFECT, PERFECT], set(), "2 %"),  # no habit
    ],
)
def test_who_stands_out_among_few(others, expected, said):
    sites = dict(zip("abcd", others, strict=False))
    found = judge_objects(sites)
    assert flagged(sites) == {("a", kind) for kind in expected}
    assert said in found[0].said
    assert len(flags(found)) == max(len(expected), 1)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (Counts(0, 0, 0, 0, 20, 0), "there is nothing to count"),
        (replace(BAD, cases=9), "9 cases were counted, 10 are needed"),
    ],
)
def test_what_cannot_be_rated_says_why_and_does_not_count_for_the_others(counts, said):
    [first, *_] = judge_objects({"a": counts, "b": GOOD, "c": GOOD})
    assert (first.share, first.is_flagged, first.said) == (None, False, said)
    assert not flagged({"a": counts, "b": BAD, "c": GOOD})


def test_a_site_sends_integers_or_nothing_and_what_cannot_be_counts_is_nothing():
    assert GOOD.sent() == [50, 50, 48, 1, 20, 0]
    assert replace(GOOD, cases=9).sent() == [0] * 6
    assert Counts.received([50.0, 50, 48, 1, 20, 0]) == GOOD
    odd = {"matched": 60}, {"wrong": 49}, {"empty": 21}, {"predicted": -1}, {"drawn": 47}
    for one in (*odd, {"matched": 48.5}, {"predicted": np.nan}):
        assert Counts.received(astuple(replace(GOOD, **one))) == Counts()


def test_logits_are_counted_as_the_probabilities_and_masks_they_stand_for():
    logits = np.full((2, 64, 64), -9.0)
    logits[1, 8:18, 8:18] = 900.0
    logits[0, 40:50, 8:18] = 0.5  # likeliest, but the model is not sure
    assert count_logits(ONE, logits) == Counts(1, 1, 1, 1, 1, 0)
    assert count_logits(0 * ONE, logits) == Counts(1, 0, 0, 0, 1, 1)
    for low, sure in ((0.3, 0), (0.9, 1)):  # it is sure by the mean probability of an object
        logits[:] = -9.0
        logits[0, 8:18, 8:18] = 0.95
        logits[0, 8:12, 8:18] = low
        assert count_logits(ONE, logits).predicted == sure
