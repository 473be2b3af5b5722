"""FedA3I as a whole: schedule, weights per stage, ablations, late sites, event log."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from feda3i import quality, testing


def play(federation, rounds=3, change=None, name="feda3i", **options):
    recipe = testing.Subject(name, options).recipe(rounds=rounds)
    return testing.outcome_of(recipe, federation, change=change)


def rounds_of(outcome):
    return [event for event in outcome.events if event["event"] == "round"]


@pytest.fixture(scope="module")
def drawn():
    """Return six sites: three that draw two pixels too large, three two pixels too small."""
    federation = testing.tiny_federation(sites=6)
    masks = federation.train.masks.copy()
    for number, site in enumerate(federation.names()):
        change = ndimage.grey_dilation if number < 3 else ndimage.grey_erosion
        masks[federation.sites[site]] = change(masks[federation.sites[site]], (1, 5, 5))
    return federation.with_masks(masks)


@pytest.fixture(scope="module")
def whole(drawn):
    return rounds_of(play(drawn, rounds=4, t1=1))


@pytest.mark.parametrize("options", [{"t1": 1, "weighting": "fedavg"}, {"t1": 3}], ids=str)
def test_without_quality_it_is_fedavg_bit_by_bit(federation, options):
    ours, plain = play(federation, **options), play(federation, name="fedavg")
    assert np.array_equal(ours.params.values, plain.params.values)


def test_after_one_survey_the_first_stage_is_quantity_and_the_last_quality(whole):
    assert ["survey" in event for event in whole] == [False, True, False, False]
    assert ["weights" in event for event in whole] == [False, True, True, True]
    assert whole[1]["weights"] == whole[3]["weights"]
    event = whole[1]
    rating = quality.Rating.from_dict(event["survey"])
    weights = np.array(list(event["weights"].values()))
    assert weights.shape == (6, 10)
    assert np.array_equal(weights[:, 0], np.full(6, 1 / 6))
    assert np.allclose(weights[:, -1], rating.weights(list(event["weights"]), [4] * 6))
    ramp = np.linspace(0, 1, 10)
    assert np.allclose(weights, np.outer(weights[:, -1], ramp) + np.outer(weights[:, 0], 1 - ramp))
    assert event["said"][0].startswith("survey of 6 sites: two Gaussians")
    assert any("0 % of the weight" in line for line in event["said"][1:])


def test_intra_gives_groups_their_share_of_sites(drawn):
    event = rounds_of(play(drawn, rounds=2, t1=1, weighting="intra"))[-1]
    part = event["survey"]["parts"][0]
    labels = np.array(part["grouping"]["labels"])
    for label in ("larger", "smaller"):
        mass = np.array(part["weights"])[labels == label].sum()
        assert mass == pytest.approx((labels == label).mean())


def test_a_site_that_missed_the_survey_is_asked_later_with_the_early_model(drawn, whole):
    late = rounds_of(play(drawn, rounds=4, t1=1, change=testing.losing({2: "site-2"})))
    assert "site-2" in late[1]["survey_missing"]
    assert "site-2" not in late[1]["survey"]["sites"]
    assert "site-2" not in late[1]["weights"]
    # Asked again in round 3 against the same early model: the same q as if it had been there.
    assert late[2]["survey"]["parts"][0]["q"] == whole[1]["survey"]["parts"][0]["q"]
    assert late[2]["survey"]["sites"] == drawn.names()
    assert "survey" not in late[3]


def test_a_site_without_contours_keeps_its_share_of_cases(drawn):
    masks = drawn.train.masks.copy()
    masks[drawn.sites["site-1"]] = 0
    odd = replace(drawn, train=replace(drawn.train, masks=masks))
    event = rounds_of(play(odd, rounds=2, t1=1))[-1]
    assert event["survey"]["parts"][0]["grouping"]["labels"][0] == "unrated"
    assert event["survey"]["parts"][0]["q"][0] == [None, None]
    assert event["weights"]["site-1"] == pytest.approx([1 / 6] * 10)


def test_auto_starts_when_the_loss_has_settled_or_at_half_time(drawn, monkeypatch):
    monkeypatch.setattr("feda3i.methods.feda3i.SETTLED", 1e-9)
    never = rounds_of(play(drawn, rounds=6, t1="auto"))
    assert never[2]["t1"] == 3
    assert never[2]["t1_reason"] == "half of the run"
    assert "survey" in never[3]
    monkeypatch.setattr("feda3i.methods.feda3i.SETTLED", 0.99)
    soon = rounds_of(play(drawn, rounds=8, t1="auto"))
    assert soon[2]["t1_reason"] == "settled"
    assert "survey" in soon[3]
