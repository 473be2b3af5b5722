"""The random-effects model: against its likelihood by brute force, and what must never move."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.quality import Offset, site_effects
from feda3i.quality.effects import CAREFUL, CAREFUL_SD, LOPSIDED, differ_by_chance, spread_of_sites


def told(offsets, error=0.5, radius=40.0):
    errors = np.broadcast_to(error, len(offsets)).tolist()
    return [
        Offset(o, e, 16, radius=radius) if math.isfinite(o) else Offset.unknown(3, "few")
        for o, e in zip(offsets, errors, strict=True)
    ]


def test_tau_of_published_trials():
    """BCG trials (Colditz 1994), log risk ratios: Paule-Mandel gives 0.318 (R package metafor)."""
    ratio = [-0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209]
    ratio += [0.0120, -0.4694, -1.3713, -0.3394, 0.4459, -0.0173]
    variance = [0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230]
    variance += [0.0040, 0.0564, 0.0730, 0.0124, 0.5325, 0.0714]
    found = spread_of_sites(np.array(ratio), np.sqrt(variance))
    assert found == pytest.approx(0.318, abs=5e-4)
    # The equation with a known centre: Q is the number of sites.
    around = spread_of_sites(np.array(ratio), np.sqrt(variance), -1.5)
    q = np.square(np.array(ratio) + 1.5) / (np.array(variance) + around)
    assert q.sum() == pytest.approx(13)


def test_own_offsets_are_the_posterior_mean():
    """By integration over a_i on a grid, tau and b as found."""
    offset, error = np.array([9.0, -4.0, 1.0, 2.0]), np.array([0.5, 2.0, 1.0, 3.0])
    trusted = Offset(1.0, 0.3, 32)
    found = site_effects(told(offset, error), trusted)
    grid = np.linspace(-40, 40, 80_001)
    for k in range(4):
        density = np.exp(
            -((offset[k] - 1.0 - grid) ** 2) / 2 / error[k] ** 2 - grid**2 / 2 / found.tau**2
        )
        mean = density @ grid / density.sum()
        spread = density @ (grid - mean) ** 2 / density.sum()
        part = found.tau**2 / (found.tau**2 + error[k] ** 2)
        assert found.own[k] == pytest.approx(mean, abs=1e-4)
        assert found.error[k] ** 2 == pytest.approx(spread + (0.3 * part) ** 2, rel=1e-4)
    assert found.moves.tolist() == (-found.own).tolist()
    assert (found.b, found.b_error, found.is_trusted) == (1.0, 0.3, True)


def test_without_trusted_masks_b_lies_between_the_sites_and_careful_annotators():
    offset = np.array([12.0, 14.0, 9.0, 16.0, 11.0])
    found = site_effects(told(offset, 1.0))
    tau2 = spread_of_sites(offset, np.ones(5))
    belief = 1 / CAREFUL_SD**2, 1 / ((1 + tau2) / 5 + LOPSIDED**2 * tau2)
    mean = (belief[0] * CAREFUL + belief[1] * offset.mean()) / sum(belief)
    assert found.b == pytest.approx(mean)
    assert found.b_error == pytest.approx(1 / math.sqrt(sum(belief)))


@pytest.mark.parametrize(
    ("measured", "trusted", "why"),
    [
        (told([6.0, 6.2, 5.9, 6.1, 5.8]), None, ""),  # alike: nobody differs reliably
        (told([-22.0, -28, -20, -25], radius=24), None, "border of something else"),
        (told([7.0]), None, "one site"),
        (told([math.nan, math.nan]), None, "no site can tell"),
        (told([math.nan, 5.0]), None, "one site"),
        (told([-5.0, 9, 2]), Offset(12, 0.3, 32), "+12.0 px (at 256) from the border"),
        (told([-5.0, 9, 2]), Offset.unknown(3, "3 cases"), "trusted masks: 3 cases"),
    ],
)
def test_nobody_moves_without_reason(measured, trusted, why):
    found = site_effects(measured, trusted)
    assert not found.moves.any()
    assert why in found.reason
    assert bool(why) == bool(found.reason)


def test_trusted_sites_stay_and_tell_where_the_border_is():
    found = site_effects(told([8.0, 2.0, 2.4]), is_trusted=[False, True, True])
    assert found.b == pytest.approx(2.2)
    assert found.moves[1:].tolist() == [0.0, 0.0]
    assert found.moves[0] == pytest.approx(-5.8, abs=0.1)
    one = site_effects(told([8.0]), Offset(2.0, 0.2, 32))  # one site is enough
    assert one.moves[0] == pytest.approx(-6.0, abs=0.1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=2, max_size=12), st.floats(0.1, 6), st.integers(0))
def test_any_sites(offsets, error, seed):
    """Moves never exceed what the sites differ by, never overshoot, and follow their sites."""
    found = site_effects(told(offsets, error, radius=200.0))
    assert np.isfinite(found.own).all()
    assert np.abs(found.own).max() <= np.ptp(offsets) + 1e-9
    away = np.array(offsets) - found.b
    assert (np.abs(found.own) <= np.abs(away) + 1e-9).all()
    assert (found.own * away >= 0).all()
    order = np.random.default_rng(seed).permutation(len(offsets))
    again = site_effects(told(np.array(offsets)[order], error, radius=200.0))
    np.testing.assert_allclose(again.own, found.own[order], atol=1e-6)


def test_sites_that_draw_alike_differ_by_chance():
    draw = np.random.default_rng(0)
    p = [differ_by_chance(draw.normal(3, 0.5, 8), np.full(8, 0.5)) for _ in range(200)]
    assert np.mean(np.array(p) < 0.1) == pytest.approx(0.1, abs=0.06)
    assert differ_by_chance(np.array([0.0, 9.0]), np.full(2, 0.5)) < 1e-9
