"""Redrawn masks: sites tell offsets, the server says who moves, any method sees moved masks."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from feda3i.engine import redrawing
from feda3i.errors import RecipeError
from feda3i.metrics import dice
from feda3i.quality import SIDE, redraw, shift_mask
from feda3i.recipe import load, validate
from feda3i.testing import tiny_federation
from listeners import StopAfter
from stepping import Steps, discs_of_sizes, played, recipe

DRAWN = {"site-1": 3.0, "site-2": -2.0, "site-3": 0.0}  # pixels of 32
ON = {"on": True, "b0": [0.0], "b0_error": 0.5}


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


def steps_of(folder, federation, redraw, name="fedavg", options=None, data=(), **train):
    given = recipe(name, options, **train).to_dict()
    given = validate(given | {"redraw": redraw, "data": given["data"] | dict(data)})
    return Steps(folder, name, federation=federation, given=given)


def trained_masks(steps, site):
    """Return the masks that a site trains on in the next round, as its station has them."""
    by = steps.server.state["redraw"]["moved"].get(site)
    return [np.asarray(steps.site(site, move=by).mask_of(k)) for k in range(10)]


def mean_dice(masks, truth):
    return np.mean([dice(one > 0, two > 0) for one, two in zip(masks, truth, strict=True)])


def test_contours_move_back_to_where_they_belong(tmp_path, federation):
    steps = steps_of(tmp_path, federation, ON)
    steps.listener = heard = StopAfter(99)
    event = steps.play()
    for site, offset in DRAWN.items():
        assert event["offsets"][site][0][0] == pytest.approx(8 * offset, abs=5)
        assert event["moved"][site][0] == pytest.approx(-8 * offset, abs=5)
    for site in ("site-1", "site-2"):
        index = federation.sites[site]
        moved, truth = trained_masks(steps, site), federation.clean_masks[index]
        assert mean_dice(moved, truth) > 0.93 > mean_dice(federation.train.masks[index], truth)
    assert "offsets" not in steps.play()  # told once
    tasks = [(order.site, order.task) for order in steps.transport.orders]
    assert tasks.count(("site-1", "offsets")) == 1
    assert all(order.settings.get("move") for order in steps.transport.orders[3:])
    (line,) = heard.notes
    assert line.startswith("masks redrawn: 2 of 3 sites move their contours, px outwards: site-1 -")


@pytest.mark.parametrize("name", ["fedavg", "fedcorr", "feda3i"])
def test_training_is_that_of_the_method_on_moved_masks(tmp_path, federation, name):
    """Masks moved beforehand by the same pixels and trained by the method: the same network."""
    options = {"fedcorr": {"t1": 1, "t2": 1}, "feda3i": {"t1": 1}}.get(name, {})
    steps = steps_of(tmp_path / "own", federation, ON, name, options)
    steps.play(2)
    masks = federation.train.masks.copy()
    for site in DRAWN:
        masks[federation.sites[site]] = trained_masks(steps, site)
    moved = replace(federation, train=replace(federation.train, masks=masks))
    other = Steps(tmp_path / "other", name, options, moved)
    other.play(2)
    assert np.array_equal(steps.values, other.values)


def test_the_method_redraw_is_short_for_fedavg(tmp_path, federation):
    short = steps_of(tmp_path / "short", federation, {**ON, "on": False}, "redraw")
    long = steps_of(tmp_path / "long", federation, ON)
    for steps in (short, long):
        steps.play(2)
    assert np.array_equal(short.values, long.values)
    assert not np.array_equal(short.values, played(tmp_path, "fedavg", {}, federation))
    assert load("demo", ["method=redraw", "redraw.b0=[2.0]"]).redraw.b0 == (2.0,)


def test_trusted_sites_say_where_the_border_is_and_stay(tmp_path, federation):
    steps = steps_of(tmp_path, federation, {"on": True, "trusted": ["site-3"]})
    event = steps.play()
    assert event["moved"]["site-3"] == [0.0]
    assert event["moved"]["site-1"][0] == pytest.approx(-24, abs=6)
    # 3 px of 32 are 24 of 256: the image must show another border than the one that is meant.
    far = steps_of(tmp_path / "far", federation, {"on": True, "trusted": ["site-1"]})
    assert set(map(tuple, far.play()["moved"].values())) == {(0.0,)}


def test_a_folder_of_trusted_masks_gives_b0(tmp_path, federation):
    folder = tmp_path / "trusted"
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True)
    for case in federation.sites["site-3"]:
        image, mask = federation.train.images[case], federation.clean_masks[case]
        cv2.imwrite(str(folder / "images" / f"{case}.png"), image[..., ::-1])
        cv2.imwrite(str(folder / "masks" / f"{case}.png"), 255 * mask)
    steps = steps_of(tmp_path / "run", federation, {"on": True, "trusted": str(folder)})
    event = steps.play()
    ((b0, error, cases, radius),) = steps.server.state["redraw"]["border"]
    assert (abs(b0) < 4, error > 0, cases, radius > 20) == (True, True, 10, True)
    assert event["moved"]["site-1"][0] == pytest.approx(-24, abs=6)
    assert "trusted" not in steps.job.recipe.shared()["redraw"]  # a place of this machine


def test_a_late_site_is_asked_when_it_comes_and_one_that_was_lost_or_told_too_much_again(
    tmp_path, federation, monkeypatch
):
    steps = steps_of(tmp_path, federation, ON)
    steps.lose("site-2", 1)
    tell = redrawing.tell
    with monkeypatch.context() as patch:
        more = lambda site: {**tell(site), **({"case": 3.0} if site.name == "site-3" else {})}
        patch.setattr(redrawing, "tell", more)
        first = steps.play()
    assert set(first["offsets_missing"]) == {"site-2", "site-3"}
    assert "does not declare" in first["offsets_missing"]["site-3"]
    assert set(first["moved"]) == {"site-1"}
    assert set(steps.play()["moved"]) == set(DRAWN)
    assert "offsets" not in steps.play()


def test_with_too_few_cases_to_tell_all_train_on_what_they_have(tmp_path):
    few = tiny_federation(cases=4)
    steps = steps_of(tmp_path / "two", few, {"on": True})
    steps.listener = heard = StopAfter(99)
    steps.play(2)
    assert heard.notes == ["masks redrawn: nobody's: no site can tell"]
    assert not any("move" in order.settings for order in steps.transport.orders)
    assert np.array_equal(steps.values, played(tmp_path, "fedavg", {}, few))


@pytest.mark.parametrize(
    ("redraw", "message"),
    [
        ({"b0": [1.0], "trusted": ["site-1"]}, "b0 or trusted"),
        ({"b0_error": 0.0}, "greater than 0"),
        ({"on": True, "trusted": ["site-9"]}, "there is no site 'site-9'"),
        ({"on": True, "b0": [1.0, 2.0]}, "found 2"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, federation, redraw, message):
    with pytest.raises(RecipeError, match=message):
        steps_of(tmp_path, federation, redraw).play()


@pytest.mark.parametrize(("scale", "dtype"), [(1.0, np.uint8), (1e-4, np.float32)])
def test_contours_of_every_size_move_back_to_where_they_belong(tmp_path, scale, dtype):
    """Values of a scanner are measured as the network sees them: a z-score here."""
    federation = discs_of_sizes(scale, dtype)
    zscore = {"normalise": "zscore"}
    steps = steps_of(tmp_path, federation, ON, data=zscore, rounds=2, patch=[16, 16])
    event = steps.play()
    assert event["offsets"]["site-1"][0][0] == pytest.approx(24, abs=3)
    assert event["moved"]["site-2"][0] == pytest.approx(0, abs=1)
    (by,) = event["moved"]["site-1"]
    drawn, moved = steps.site("site-1"), steps.site("site-1", move=[by])
    for k in range(8):
        mask, truth = drawn.mask_of(k), federation.clean_masks[k] > 0
        own = redraw(mask, [by * max(mask.shape) / SIDE])
        np.testing.assert_array_equal(moved.mask_of(k), own)
        assert dice(own > 0, truth) > 0.93 > dice(mask > 0, truth)
    assert moved.facts_of(0).foreground[0].shape != drawn.facts_of(0).foreground[0].shape
