"""Redraw: sites move their own contours, the other method sees those, and little leaves a site."""

from dataclasses import replace

import numpy as np
import pytest
from at_site import unpack_masks

from feda3i.errors import RecipeError
from feda3i.methods.base import make_method
from feda3i.methods.redraw import Redraw
from feda3i.metrics import dice
from feda3i.quality import shift_mask
from feda3i.testing import tiny_federation
from stepping import Steps, played

DRAWN = {"site-1": 3.0, "site-2": -2.0, "site-3": 0.0}
SHARP = {"fewest": 4, "slack": 4.0}


@pytest.fixture(scope="module")
def federation():
    """Three sites of ten discs of equal colours, drawn 3 px too large, 2 too small, and right."""
    clean = tiny_federation(cases=10)
    images = np.where(clean.train.masks[..., None] > 0, 160, 60).astype(np.uint8)
    masks = clean.train.masks.copy()
    for site, offset in DRAWN.items():
        for case in clean.sites[site]:
            masks[case] = shift_mask(masks[case], offset)
    return replace(clean, train=replace(clean.train, images=images)).with_masks(masks)


def mean_dice(masks, truth):
    return np.mean([dice(one > 0, two > 0) for one, two in zip(masks, truth, strict=True)])


def test_contours_move_back_to_where_they_belong(tmp_path, federation):
    steps = Steps(tmp_path, "redraw", SHARP, federation)
    event = steps.play()
    for site, offset in DRAWN.items():
        assert event["offsets"][site][0][0] == pytest.approx(offset, abs=0.7)
        assert event["moved"][site][0] == pytest.approx(-offset, abs=0.7)
    for site in ("site-1", "site-2"):
        index = federation.sites[site]
        bits = steps.memory(site)["redrawn"]
        moved = unpack_masks(bits, (1, 32, 32))[:, 0]
        truth = federation.clean_masks[index]
        assert mean_dice(moved, truth) > 0.93 > mean_dice(federation.train.masks[index], truth)
    assert "redrawn" not in steps.memory("site-3")
    assert "offsets" not in steps.play()  # told once


def test_training_is_that_of_the_other_method_on_moved_masks(tmp_path, federation):
    """The clean masks moved by the measured offsets, trained by FedAvg, give the same network."""
    steps = Steps(tmp_path / "own", "redraw", SHARP, federation)
    steps.play(2)
    masks = federation.train.masks.copy()
    for site in ("site-1", "site-2"):
        bits = steps.memory(site)["redrawn"]
        masks[federation.sites[site]] = unpack_masks(bits, (1, 32, 32))[:, 0]
    moved = replace(federation, train=replace(federation.train, masks=masks))
    assert np.array_equal(steps.values, played(tmp_path, "fedavg", {}, moved))


def test_without_reason_it_is_the_other_method(tmp_path, federation):
    few = {"fewest": 11, "then": "fedprox", "options": {"mu": 0.1}}
    redraw = played(tmp_path / "few", "redraw", few, federation)
    assert np.array_equal(redraw, played(tmp_path, "fedprox", {"mu": 0.1}, federation))


def test_a_trusted_site_says_where_the_border_is(tmp_path, federation):
    steps = Steps(tmp_path, "redraw", {**SHARP, "trusted": ["site-3"]}, federation)
    steps.play()
    assert not any("moved" in steps.memory(site) for site in DRAWN)  # nobody knew in round 1
    steps.play()
    assert "moved" not in steps.memory("site-3")
    assert steps.memory("site-1")["moved"][0] == pytest.approx(-3, abs=1)


def test_trusted_sites_keep_their_masks_where_they_differ(tmp_path, federation):
    near = {"fewest": 4, "threshold": 0.0, "slack": 0.0}
    alone = Steps(tmp_path / "alone", "redraw", near, federation)
    assert alone.play()["moved"]["site-2"] != [0.0]
    options = {**near, "trusted": ["site-2", "site-3"]}
    steps = Steps(tmp_path / "two", "redraw", options, federation)
    event = steps.play()
    assert event["moved"]["site-2"] == event["moved"]["site-3"] == [0.0]


def test_a_trusted_site_far_from_the_edge_stops_everybody(tmp_path, federation):
    """3 px of 32 are 24 of 256: the image must show another border than the one that is meant."""
    steps = Steps(tmp_path, "redraw", {**SHARP, "trusted": ["site-1"]}, federation)
    steps.play(2)
    assert not any("moved" in steps.memory(site) for site in DRAWN)


def test_b0_is_given_in_pixels_at_256(tmp_path, federation):
    steps = Steps(tmp_path, "redraw", {**SHARP, "b0": [16.0 / 4], "b0_error": 0.1}, federation)
    steps.play()
    assert steps.memory("site-3")["moved"][0] == pytest.approx(0.5, abs=0.7)


def test_the_other_methods_survey_is_about_moved_masks(tmp_path, federation):
    """FedA3I finds a smaller spread of losses once contours were moved."""
    options = {"t1": 1, "safe": False}
    alone = Steps(tmp_path / "alone", "feda3i", options, federation)
    both = Steps(
        tmp_path / "both", "redraw", {**SHARP, "then": "feda3i", "options": options}, federation
    )
    alone.play()
    both.play()
    site = alone.site("site-1")
    assert alone.method.survey(site) != both.method.survey(
        both.site("site-1", border=[], border_error=[], border_cases=[])
    )
    both.play()
    assert "rating" in both.server.state


def test_what_leaves_a_site_is_declared(federation):
    method = make_method("redraw", {"then": "feddm"})
    assert method.wire.fit == ("offset", "offset_error", "offset_cases")
    assert method.wire.networks == ("near", "far")
    assert "keep" in method.wire.settings
    assert Redraw.wire.settings == ("border", "border_error", "border_cases")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"then": "redraw"}, "found 'redraw' itself"),
        ({"then": "nonsense"}, "nonsense"),
        ({"then": "/tmp/evil.py:Method"}, "expected the name of an installed method"),
        ({"then": "package.module:Method"}, "expected the name of an installed method"),
        ({"then": "fedprox", "options": {"nu": 1}}, "has no option 'nu'"),
        ({"b0": [1.0], "trusted": ["site-1"]}, "b0 or trusted"),
        ({"fewest": 1}, "greater than or equal to 2"),
    ],
)
def test_what_cannot_work_is_refused(options, message):
    with pytest.raises(RecipeError, match=message):
        make_method("redraw", options)


def test_unknown_trusted_sites_are_refused(tmp_path, federation):
    with pytest.raises(RecipeError, match="there is no site 'site-9'"):
        Steps(tmp_path, "redraw", {"trusted": ["site-9"]}, federation)
    with pytest.raises(RecipeError, match="found 2"):
        Steps(tmp_path, "redraw", {"b0": [1.0, 2.0]}, federation)
