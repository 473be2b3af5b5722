"""FedNoRo: invariants of the method, detection, teaching, weights by distance."""

import numpy as np
import pytest
import torch
from at_site import four_sites

from feda3i.methods.base import make_method
from feda3i.methods.fednoro import distances_to_clean
from feda3i.testing import tiny_federation
from stepping import Steps, played, unequal

SOON = {"s1": 1, "end": 2}


def test_distances_are_sums_of_norms_to_the_nearest_clean_network():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 10)).astype(np.float32)
    spans = [(0, 4), (4, 5), (5, 10)]
    noisy, clean = np.array([0, 1, 0, 1, 0], bool), np.array([1, 0, 1, 0, 0], bool)
    found = distances_to_clean(rows, spans, noisy, clean)

    def distance(i, j):
        return sum(np.linalg.norm(rows[i, a:b].astype(float) - rows[j, a:b]) for a, b in spans)

    expected = [0, min(distance(1, 0), distance(1, 2)), 0, min(distance(3, 0), distance(3, 2)), 0]
    assert found == pytest.approx(expected, abs=1e-6)
    assert not distances_to_clean(rows, spans, noisy, np.zeros(5, bool)).any()
    assert not distances_to_clean(rows, spans, np.zeros(5, bool), clean).any()


def test_the_teachers_share_as_printed():
    method = make_method("fednoro", {})
    shares = [method.teacher_share(t) for t in range(10, 100)]
    assert shares[0] == pytest.approx(0.8 * np.exp(-5), abs=1e-12)
    assert shares[39:] == pytest.approx([0.8] * 51, abs=1e-12)
    assert (np.diff(shares) >= 0).all()
    assert make_method("fednoro", {"s1": 60}).teacher_share(60) == 0.8


def test_all_clean_is_fedavg_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "feda3i.methods.fednoro.vote_high_group", lambda numbers: np.zeros(len(numbers), bool)
    )
    found = played(tmp_path, "fednoro", SOON, unequal(), rounds=3)
    np.testing.assert_array_equal(found, played(tmp_path, "fedavg", None, unequal(), rounds=3))


def test_the_survey_is_the_mean_loss_over_pooled_pixels(tmp_path):
    steps = Steps(tmp_path, "fednoro", None, tiny_federation(cases=10, classes=2))
    steps.play()
    found = steps.method.survey(steps.site("site-2"))
    index = steps.federation.sites["site-2"]
    images = steps.federation.train.images[index]
    p = steps.station().predictor.probabilities(images, steps.server.params)
    masks = steps.federation.train.masks[index]
    for k in range(2):
        y = masks == k + 1
        loss = -np.log(np.where(y, p[:, k], 1 - p[:, k]).astype(float))
        assert found["foreground"][k] == pytest.approx(loss[y].mean(), rel=1e-4)
        assert found["background"][k] == pytest.approx(loss[~y].mean(), rel=1e-4)


def test_detection_acts_in_the_round_of_the_survey(tmp_path):
    steps = Steps(tmp_path, "fednoro", {**SOON, "s1": 2}, four_sites(), epochs=3)
    steps.play(2)
    assert {order.task for order in steps.transport.orders} == {"fit"}
    event = steps.play()
    assert event["noisy"] == ["site-4"]
    orders = [order for order in steps.transport.orders if order.round == 3]
    assert [order.task for order in orders] == ["survey"] * 4 + ["fit"] * 4
    assert [order.settings["is_noisy"] for order in orders[4:]] == [False, False, False, True]
    weights = event["weights"]
    assert sum(weights.values()) == pytest.approx(1)
    assert weights["site-4"] == pytest.approx(np.exp(-1) * weights["site-1"])
    steps.play()
    assert {order.task for order in steps.transport.orders if order.round == 4} == {"fit"}


def test_a_noisy_site_listens_to_the_received_network(tmp_path):
    """One step by hand: the reported loss holds the sharpened teacher in eval mode."""
    steps = Steps(tmp_path, "fednoro", {**SOON, "a": 0.6}, four_sites(), batch=4)
    steps.play()
    told = {f"site-{k}": [0.0, 0.0] for k in (1, 2, 3, 4)}
    steps.server.state.update(noisy=["site-4"], losses=told)
    site = steps.site("site-4")
    batch = site.batch(np.arange(4))
    (_, taught), *_ = site.predict()
    site.network.train()
    logits = site.network(batch.images)
    q, p = torch.sigmoid(taught / 0.8), torch.sigmoid(logits)
    kl = q * torch.log(q / p) + (1 - q) * torch.log((1 - q) / (1 - p))
    ce = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.masks)
    share = steps.method.teacher_share(1)
    expected = share * kl.mean() + (1 - share) * ce
    assert share == pytest.approx(0.6 * np.exp(-5))
    event = steps.play()
    assert event["site_loss"]["site-4"] == pytest.approx(float(expected.detach()), abs=1e-6)


def test_a_site_that_missed_the_survey_is_asked_with_the_model_of_the_survey(tmp_path):
    steps = Steps(tmp_path, "fednoro", SOON, four_sites())
    steps.lose("site-4", 2)
    steps.play()
    at_survey = steps.values.copy()
    steps.play(2)
    late = [o for o in steps.transport.orders if o.round == 3 and o.task == "survey"]
    assert [order.site for order in late] == ["site-4"]
    np.testing.assert_array_equal(late[0].params.values, at_survey)
    assert sorted(steps.server.state["losses"]) == [f"site-{k}" for k in (1, 2, 3, 4)]
