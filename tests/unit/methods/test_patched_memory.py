"""What methods remember of cases while sites train on patches of them, of one size and of several.

Whole runs are played by ``test_patched_runs.py``, and resumed by ``testing.takes_patches``.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from feda3i.core.cases import Cases, Federation
from feda3i.core.patches import shared_boxes
from feda3i.core.ragged import Ragged
from feda3i.engine.run import job_of
from feda3i.losses import pixel_cross_entropy
from feda3i.methods import feda3i
from feda3i.methods.parts.corrected import current_masks, pack_masks, unpack_cases
from feda3i.methods.parts.foreseen import foresee, foreseen
from feda3i.metrics import dice
from feda3i.quality import SIDE, redraw, shift_mask
from feda3i.testing import tiny_federation, uneven_federation
from short import SHORT
from stepping import Steps, played, recipe, with_noisy

PATCH = {"patch": [16, 20]}
WHOLE = {"patch": [32, 32]}


def masks_in(memory, name, shapes):
    return unpack_cases(memory[name], range(len(shapes)), shapes)


# -- patches that hold a whole case ----------------------------------------------------------------


def noisy():
    return with_noisy(tiny_federation(sites=2), "site-2")


REACHED = {"elr": "elr", "feddm": "peers", "fednoro": "noisy"}
"""What is not empty once a method does more than FedAvg."""


@pytest.mark.parametrize("name", REACHED)
def test_patches_as_large_as_the_cases_train_as_whole_cases_do(name, tmp_path):
    """To the bit: nothing but the network in training looks at a batch of another size."""
    values = []
    for train in ({}, WHOLE):
        steps = Steps(tmp_path / str(len(train)), name, SHORT[name], noisy(), rounds=3, **train)
        steps.play(3)
        values.append(steps.values)
    np.testing.assert_array_equal(*values)
    assert {"elr": steps.memory("site-1"), **steps.server.state}[REACHED[name]]


@pytest.mark.parametrize(("name", "rounds"), [("adele", 4), ("fedcorr", 3)])
def test_patches_as_large_as_the_cases_correct_the_same_pixels(name, rounds, tmp_path):
    """Cases are predicted one by one, which may change the last bits of a prediction."""
    found = []
    for train in ({}, WHOLE):
        steps = Steps(tmp_path / str(len(train)), name, SHORT[name], noisy(), rounds=4, **train)
        steps.play(rounds)
        found.append(steps.memory("site-2")["masks"])
    assert found[0].shape == found[1].shape
    same = np.unpackbits(found[0]) == np.unpackbits(found[1])
    assert same.mean() > 0.99


# -- cases of several sizes ------------------------------------------------------------------------


def uneven_site(folder, name="fedavg", **train):
    steps = Steps(folder, name, SHORT.get(name), uneven_federation(), **PATCH, **train)
    return steps, steps.site("site-1")


def label_maps(site):
    return [
        np.stack([site.mask_of(k) == v + 1 for v in range(site.classes)]) for k in range(len(site))
    ]


def test_what_is_kept_is_cut_as_the_batch_was(tmp_path):
    _, site = uneven_site(tmp_path)
    kept = label_maps(site)
    assert len(set(site.shapes)) == 2
    for epoch in range(3):
        for batch in site.batches(epoch):
            cut = batch.cut([kept[k] for k in batch.positions])
            assert torch.equal(cut.to(batch.masks), batch.masks)
    (whole, _), *_ = site.predict()
    assert torch.equal(whole.cut([kept[0]]).to(whole.masks), whole.masks)


def test_what_is_kept_follows_an_augmented_patch(tmp_path):
    _, site = uneven_site(tmp_path, augment="dermoscopy")
    kept, seen = label_maps(site), 0
    for batch in site.augmented(site.batches(1), 1):
        cut = batch.cut([kept[k] for k in batch.positions]).to(batch.masks)
        assert torch.equal(batch.follow(cut), batch.masks)
        seen += not torch.equal(cut, batch.masks)
    assert seen  # the patches were moved


def test_what_was_foreseen_belongs_to_the_patches_of_each_epoch(tmp_path):
    _, site = uneven_site(tmp_path, epochs=3)
    logits = foresee(site, lambda batch, logits: logits)
    masks = foresee(site, lambda batch, logits: batch.masks)
    assert logits.shape == masks.shape == (3, len(site), site.classes, *site.shape)
    for epoch in range(3):
        for batch in site.batches(epoch):
            assert torch.equal(foreseen(masks, batch), batch.masks)
            torch.testing.assert_close(
                foreseen(logits, batch), site.predictor.logits(batch.images), rtol=1e-4, atol=1e-4
            )
    assert not np.array_equal(masks[0], masks[1])


def test_masks_of_several_sizes_pack_and_unpack():
    draw = np.random.default_rng(0)
    masks = [draw.random(shape) < 0.5 for shape in ((2, 5, 7), (2, 3, 3), (2, 9, 1))]
    bits = pack_masks(masks)
    assert bits.shape == (9 + 3 + 3,)
    found = unpack_cases(bits, [2, 0], [one.shape for one in masks])
    for one, expected in zip(found, (masks[2], masks[0]), strict=True):
        np.testing.assert_array_equal(one, expected)


def test_fedcorr_relabels_whole_cases_by_the_network_it_received(tmp_path):
    options = {"t1": 1, "t2": 0}
    steps = Steps(tmp_path, "fedcorr", options, uneven_federation(), **PATCH)
    steps.play()
    site = steps.site("site-1", relabel="all", phase=3, noise_level=0.0)
    expected = [(logits > 0)[0].numpy() for _, logits in site.predict()]
    steps.method.act(site)
    shapes = [(site.classes, *shape) for shape in site.shapes]
    for one, other in zip(masks_in(site.memory, "masks", shapes), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    batch = site.batch(np.arange(len(site)), epoch=1)
    kept = batch.cut(expected).to(batch.masks)
    assert torch.equal(current_masks(site, batch), kept)
    assert torch.equal(steps.method.targets(site, batch), kept)


def test_fedcorr_remembers_the_highest_losses_of_each_case(tmp_path):
    federation = with_uneven_noise("site-1")
    steps = Steps(tmp_path, "fedcorr", {"t1": 2, "t2": 0, "pi": 1.0}, federation, **PATCH)
    steps.play()
    site = steps.site("site-1")
    _, level = steps.method._judge(site)
    looked = [pixel_cross_entropy(z, batch.masks)[0].numpy() for batch, z in site.predict()]
    chosen = masks_in(site.memory, "highest", [one.shape for one in looked])
    high, low = (
        np.concatenate([one[which == is_chosen] for one, which in zip(looked, chosen, strict=True)])
        for is_chosen in (True, False)
    )
    assert len(high) == round(level * (len(high) + len(low))) > 0
    assert high.min() >= low.max()


def with_uneven_noise(*names):
    federation = uneven_federation()
    masks = federation.train.masks.copy()
    for name in names:
        for k in federation.sites[name]:
            masks[int(k)] = (masks[int(k)] == 0).astype(np.uint8)
    return federation.with_masks(masks)


def test_windows_answer_as_the_network_predicts(tmp_path):
    _, site = uneven_site(tmp_path)
    for batch, logits in site.predict():
        assert torch.equal(site.answers(batch, site.predictor.logits), logits)


def test_elr_remembers_the_pixels_that_it_has_seen(tmp_path):
    steps, site = uneven_site(tmp_path, "elr")
    beta, expected = SHORT["elr"]["beta"], [np.zeros(shape) for shape in site.shapes]
    for epoch in range(3):
        batch = site.batch(np.arange(len(site)), epoch)
        logits = torch.full((len(batch), site.classes, *site.shape), 2.0)
        t1, total = steps.method.remember(site, batch, logits)
        for k, corner in enumerate(batch.corners):
            box, _ = shared_boxes(site.shapes[k], corner, site.shape)
            expected[k][box] += 1
        visits = batch.cut([one[None] for one in expected])
        torch.testing.assert_close(total, (1 - beta**visits).to(total))
        p = float(torch.sigmoid(torch.tensor(2.0)))
        torch.testing.assert_close(t1, (total * p).expand_as(t1))  # p was always the same
    assert any((one == 0).any() and (one > 1).any() for one in expected)
    flat = np.concatenate([one.reshape(-1) for one in expected])
    np.testing.assert_array_equal(site.memory["visits"], flat)


# -- redraw ----------------------------------------------------------------------------------------

DRAWN = {"site-1": 24.0, "site-2": 0.0}  # pixels at 256 of each case's longest side
SIDES = ((40, 64), (96, 80), (56, 48), (72, 72), (44, 48), (90, 96))
SHARP = {"fewest": 4}


def disc_cases(scale=1.0, dtype=np.uint8, count=6):
    """Return two sites of some discs each in images of unlike sizes; one site draws too large."""
    images, clean, drawn = [], [], []
    for k in range(2 * count):
        shape = SIDES[k % 6]
        grid = np.indices(shape) - np.array([n / 2 + k % 3 for n in shape]).reshape(2, 1, 1)
        inside = np.hypot(*grid) < 0.22 * min(shape)
        offset = DRAWN["site-1" if k < count else "site-2"] * max(shape) / SIDE
        images.append((scale * np.where(inside, 160, 60)[..., None]).astype(dtype))
        clean.append(inside.astype(np.uint8))
        drawn.append(shift_mask(inside, offset).astype(np.uint8))
    names = tuple(f"c{k}" for k in range(2 * count))
    cases = Cases(names, Ragged.of(images), Ragged.of(drawn))
    test = replace(cases.take(np.arange(1)), ids=("t",))
    sites = {"site-1": np.arange(count), "site-2": np.arange(count, 2 * count)}
    return Federation(cases, sites, test, clean_masks=Ragged.of(clean))


def test_contours_of_every_size_move_back_to_where_they_belong(tmp_path):
    federation = disc_cases()
    steps = Steps(tmp_path, "redraw", SHARP, federation, **PATCH)
    event = steps.play()
    assert event["offsets"]["site-1"][0][0] == pytest.approx(24, abs=3)
    assert event["moved"]["site-2"] == [0.0]
    (by,) = event["moved"]["site-1"]
    site, memory = steps.site("site-1"), steps.memory("site-1")
    moved = [one[0] for one in masks_in(memory, "redrawn", [(1, *s) for s in site.shapes])]
    for k, mask in enumerate(moved):
        own = redraw(site.mask_of(k), [by * max(site.shapes[k]) / SIDE])
        np.testing.assert_array_equal(mask, own > 0)
        truth = federation.clean_masks[k] > 0
        before, after = (dice(m > 0, truth) for m in (site.mask_of(k), mask))
        assert after > 0.93 > before
    assert "redrawn" not in steps.memory("site-2")


@pytest.mark.parametrize("then", ["fedavg", "fednoro"])
def test_training_is_that_of_the_other_method_on_patches_of_moved_masks(then, tmp_path):
    federation, options = disc_cases(), {"then": then, "options": SHORT.get(then, {})}
    steps = Steps(tmp_path / "own", "redraw", {**SHARP, **options}, federation, rounds=2, **PATCH)
    steps.play(2)
    site, masks = steps.site("site-1"), federation.train.masks.copy()
    shapes = [(1, *shape) for shape in site.shapes]
    for k, one in enumerate(masks_in(steps.memory("site-1"), "redrawn", shapes)):
        masks[k] = one[0].astype(np.uint8)
    moved = replace(federation, train=replace(federation.train, masks=masks))
    other = played(tmp_path, then, SHORT.get(then), moved, **PATCH)
    np.testing.assert_array_equal(steps.values, other)


def test_patches_as_large_as_the_cases_move_the_same_contours(tmp_path):
    clean = tiny_federation(sites=1, cases=8)
    images = np.where(clean.train.masks[..., None] > 0, 160, 60).astype(np.uint8)
    masks = np.stack([shift_mask(mask, 3.0) for mask in clean.train.masks]).astype(np.uint8)
    drawn = replace(clean, train=replace(clean.train, images=images, masks=masks))
    steps = [
        Steps(tmp_path / str(len(train)), "redraw", SHARP, drawn, **train) for train in ({}, WHOLE)
    ]
    one, two = (s.play() and s.memory("site-1") for s in steps)
    np.testing.assert_array_equal(one["redrawn"], two["redrawn"])
    np.testing.assert_allclose(one["measured"][0, :2] * SIDE / 32, two["measured"][0, :2])
    np.testing.assert_array_equal(steps[0].values, steps[1].values)


def test_values_of_a_scanner_are_measured_as_the_network_sees_them(tmp_path):
    """As they are they lie within a hundredth of a grey level, and nothing would stand out."""
    found = []
    for scale, dtype in ((1.0, np.uint8), (1e-4, np.float32)):
        given = recipe("redraw", SHARP, **PATCH).to_dict()
        given["data"]["normalise"] = "zscore"
        steps = Steps(tmp_path / str(scale), "redraw", SHARP, disc_cases(), **PATCH)
        steps.job = job_of(type(steps.job.recipe).model_validate(given), disc_cases(scale, dtype))
        steps.federation = disc_cases(scale, dtype)
        site = steps.site("site-1", border=[], border_error=[], border_cases=[])
        steps.method._moved(site)
        found.append(site.memory["moved"])
    np.testing.assert_allclose(found[0], found[1], rtol=0.05)


@pytest.mark.parametrize(("scale", "dtype"), [(1.0, np.uint8), (1e-4, np.float32)])
def test_a_survey_tells_edges_of_volumes_in_pixels_at_256(scale, dtype, tmp_path, monkeypatch):
    """Whatever the values of the scanner and the sizes of cases; the server balances in them."""
    steps = Steps(tmp_path, "feda3i", {"t1": 1}, disc_cases(count=12), **PATCH)
    given = recipe("feda3i", {"t1": 1}, **PATCH).to_dict()
    given["data"]["normalise"] = "zscore"
    steps.federation = disc_cases(scale, dtype, count=12)
    steps.job = job_of(type(steps.job.recipe).model_validate(given), steps.federation)
    told = [steps.method.survey(steps.site(name))["edge"][0] for name in DRAWN]
    assert told == pytest.approx(list(DRAWN.values()), abs=3)
    sides = []
    balance = feda3i.quality.balance_by_offset
    monkeypatch.setattr(
        feda3i.quality, "balance_by_offset", lambda *args: sides.append(args[2]) or balance(*args)
    )
    steps = Steps(tmp_path / "run", "feda3i", {"t1": 1}, disc_cases(), **PATCH)
    steps.play(2)
    assert sides == [SIDE]
