"""What methods remember of cases while sites train on patches, of one size and of several."""

import numpy as np
import pytest
import torch

from feda3i.core.patches import shared_boxes
from feda3i.methods.corrected import current_masks, unpack_cases
from feda3i.methods.foreseen import foresee, foreseen
from feda3i.testing import tiny_federation, uneven_federation
from short import SHORT
from stepping import Steps, with_noisy

PATCH = {"patch": [16, 20]}
REACHED = {"elr": "elr", "feddm": "peers", "fednoro": "noisy"}
"""What is not empty once a method does more than FedAvg."""


@pytest.mark.parametrize("name", REACHED)
def test_patches_as_large_as_the_cases_train_as_whole_cases_do(name, tmp_path):
    """To the bit: nothing but the network in training looks at a batch of another size."""
    noisy, values = with_noisy(tiny_federation(sites=2), "site-2"), []
    for train in ({}, {"patch": [32, 32]}):
        steps = Steps(tmp_path / str(len(train)), name, SHORT[name], noisy, rounds=3, **train)
        steps.play(3)
        values.append(steps.values)
    np.testing.assert_array_equal(*values)
    assert {"elr": steps.memory("site-1"), **steps.server.state}[REACHED[name]]


def uneven_site(folder, name="fedavg", **train):
    steps = Steps(folder, name, SHORT.get(name), uneven_federation(), **PATCH, **train)
    return steps, steps.site("site-1")


def test_what_is_kept_is_cut_as_the_batch_was(tmp_path):
    _, site = uneven_site(tmp_path)
    values = range(1, 1 + site.classes)
    kept = [np.stack([site.mask_of(k) == v for v in values]) for k in range(len(site))]
    assert len(set(site.shapes)) == 2
    for epoch in range(3):
        for batch in site.batches(epoch):
            cut = batch.cut([kept[k] for k in batch.positions])
            assert torch.equal(cut.to(batch.masks), batch.masks)
    moved = 0
    for batch in uneven_site(tmp_path, augment="dermoscopy")[1].augmented(site.batches(1), 1):
        cut = batch.cut([kept[k] for k in batch.positions]).to(batch.masks)
        assert torch.equal(batch.follow(cut), batch.masks)
        moved += not torch.equal(cut, batch.masks)
    assert moved
    (whole, _), *_ = site.predict()
    assert torch.equal(whole.cut([kept[0]]).to(whole.masks), whole.masks)


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


def test_fedcorr_relabels_whole_cases_by_the_network_it_received(tmp_path):
    options = {"t1": 1, "t2": 0}
    steps = Steps(tmp_path, "fedcorr", options, uneven_federation(), **PATCH)
    steps.play()
    site = steps.site("site-1", relabel="all", phase=3, noise_level=0.0)
    expected = [(logits > 0)[0].numpy() for _, logits in site.predict()]
    steps.method.survey(site)
    shapes = [(site.classes, *shape) for shape in site.shapes]
    found = unpack_cases(site.memory["masks"], range(len(shapes)), shapes)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    batch = site.batch(np.arange(len(site)), epoch=1)
    kept = batch.cut(expected).to(batch.masks)
    assert torch.equal(current_masks(site, batch), kept)


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
