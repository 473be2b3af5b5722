"""ADELE: three scales, one curve over all sites, corrected masks."""

import warnings

import numpy as np
import pytest
import torch
from at_site import site_of, station_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import curve_fit

from feda3i import losses
from feda3i.core.messages import Order, Replies, Reply
from feda3i.engine.run import job_of
from feda3i.methods.adele import Curve, at_scale, bend, correct, fit_curve, flat_head, has_bent
from feda3i.methods.corrected import current_masks
from feda3i.testing import Subject, outcome_of, tiny_federation


def test_the_step_is_the_formula(tmp_path):
    federation = tiny_federation(size=48, classes=2)
    site = site_of(tmp_path, "adele", federation=federation, lam=2.0, rho=0.6)
    batch = site.batch(np.array([0, 1, 2]))
    site.network.train()
    loss = site.method.step(site, batch)
    views = [at_scale(site.network, batch.images, scale) for scale in (0.7, 1.0, 1.5)]
    ce = sum(losses.cross_entropy(z, batch.masks) for z in views)
    p = torch.sigmoid(torch.stack(views))
    mean = p.mean(0).clamp(1e-3, 1 - 1e-3)
    j = (p * (p / mean).log() + (1 - p) * ((1 - p) / (1 - mean)).log()).sum(0)
    sure = torch.maximum(mean, 1 - mean)
    sure = sure.flatten(1).amax(1).reshape(-1, 1, 1, 1)
    expected = (ce + 2.0 * (j * (sure >= 0.6)).mean()) / 3
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)


def test_certain_pixels_take_the_predicted_class_unless_a_mask_would_collapse():
    away = np.hypot(*(np.indices((40, 40)) - 20))
    small, large = (torch.from_numpy(away < radius)[None, None] for radius in (8, 12))
    none, full = torch.zeros_like(small), torch.ones_like(small)
    p = lambda inside, low=0.1: torch.where(inside, 0.9, low)
    ring = torch.where(large & ~small, 0.75, p(small))
    for masks, probabilities, tau, expected in [
        (small, p(large), 0.8, large),
        (large, p(small), 0.8, small),
        (small, ring, 0.8, small),  # the ring is not certain enough
        (small, torch.where(large, 0.75, 0.25), 0.75, small),  # a strict bound
        (none, p(large), 0.8, none),  # an absent class stays absent
        (small, p(none, 0.01), 0.8, small),  # a collapse
        (full, p(small), 0.8, small),  # 12 % of the frame remain: believed
    ]:
        assert torch.equal(correct(masks, probabilities, tau), expected)


def test_masks_at_the_site_are_corrected_with_the_mean_over_scales(tmp_path):
    federation = tiny_federation(sites=1)
    recipe = Subject("fedavg", {}).recipe(rounds=4, train={"epochs": 3, "batch": 2})
    params = outcome_of(recipe, federation).params  # they predict the discs with some certainty
    station = station_of(tmp_path, "adele", federation, tau=0.55)
    given = station.cases.masks.copy()
    on = {"correct": [True]}
    reply = station.answer(Order("fit", 9, "site-1", params, on))
    later = Order("fit", 10, "site-1", params, on)
    site = station._site(later, station.recall(later))
    network = station.predictor.load(params).network.eval()
    batch = site.batch(np.arange(4))
    with torch.inference_mode():
        views = [at_scale(network, batch.images, scale) for scale in (0.7, 1.0, 1.5)]
        expected = correct(batch.masks > 0, torch.sigmoid(torch.stack(views)).mean(0), 0.55)
    current = current_masks(site, batch)
    assert torch.equal(current > 0, expected)
    assert not torch.equal(current, batch.masks)
    np.testing.assert_array_equal(station.cases.masks, given)
    predicted = views[1] > 0
    assert reply.numbers["predicted"] == [int(predicted.sum())]
    assert reply.numbers["annotated"] == [int(batch.masks.sum())]
    assert reply.numbers["both"] == [int((predicted & (batch.masks > 0)).sum())]


def test_only_due_classes_are_corrected_and_others_are_kept(tmp_path):
    site = site_of(tmp_path, "adele", federation=tiny_federation(classes=2), tau=0.5)
    batch = site.batch(np.arange(4))
    site.method.look(site, [False, True])
    current = current_masks(site, batch)
    assert torch.equal(current[:, 0], batch.masks[:, 0])
    assert not torch.equal(current[:, 1], batch.masks[:, 1])
    site.method.look(site, [True, False])
    assert torch.equal(current_masks(site, batch)[:, 1], current[:, 1])


def server_of(rounds=20, classes=1, **options):
    federation = tiny_federation(classes=classes)
    job = job_of(Subject("adele", options).recipe(rounds=rounds), federation)
    server = job.server({"site-1": 4, "site-2": 4})
    job.method.start(server)
    server.method = job.method  # for tests that call its hooks
    return server


def tell(server, round, counts):
    """Digest one round's counts, ``{site: (predicted, annotated, both)}`` with lists by class."""
    numbers = lambda lists: dict(zip(("predicted", "annotated", "both"), lists, strict=True))
    items = tuple(Reply("fit", round, site, 4, numbers(c)) for site, c in counts.items())
    server.method.digest(server, Replies("fit", round, items))


def test_the_iou_is_that_of_all_cases_together():
    server = server_of()
    tell(server, 1, {"site-1": ([10], [10], [10]), "site-2": ([90], [30], [30])})
    assert server.state["iou"] == [[pytest.approx(40 / 100)]]  # the mean of IoUs would be 2/3
    tell(server, 2, {"site-1": ([0], [0], [0])})
    assert server.state["iou"][0][1] == 0


def test_each_class_switches_on_its_own_and_for_good():
    server = server_of(rounds=100, classes=2)
    values = 0.7 * (1 - np.exp(-np.arange(20) / 3))
    for t, value in enumerate(values):
        both = round(2e6 * value / (1 + value))
        tell(server, t + 1, {"site-1": ([1000000] * 2, [1000000] * 2, [both, 0])})
    # Point 9 (after nine rounds) decides; it arrives with round 10 and acts from round 11 on.
    assert server.state["first"] == [11, None]
    due = [server.method.plan(server, r).settings["correct"] for r in (10, 11, 12, 99)]
    assert due == [[False, False]] + [[True, False]] * 3


@pytest.mark.parametrize("shape", [(40, 50), (34, 36, 40)])
def test_logits_come_back_at_the_size_of_the_images(shape):
    sizes = []
    spy = lambda x: sizes.append(tuple(x.shape[2:])) or x.mean(1, keepdim=True)
    for scale in (1.0, 1.5):
        assert at_scale(spy, torch.rand(2, 3, *shape), scale).shape == (2, 1, *shape)
    assert sizes == [shape, tuple(int(1.5 * side) for side in shape)]


def rising(constant, points=100):
    return 0.7 * (1 - np.exp(-np.arange(points) / constant))


def first_bend(values, r=0.9, rounds=100, **options):
    """Return the round at which the switch fires, counted from 0 for the initial model."""
    fired = (m for m in range(len(values)) if has_bent(values[: m + 1], r, rounds, **options))
    return next(fired, None)


def test_fit_is_the_weighted_bounded_fit_of_scipy():
    values = rising(4, 15) + 0.02 * np.sin(np.arange(15))
    x, error = np.linspace(0, 15, 15), np.geomspace(1, 0.1, 15)
    f = lambda x, a, b, c: a * (1 - np.exp(-(x**b) / c))
    expected, _ = curve_fit(
        f, x, values, p0=(1, 1, 1), sigma=error, bounds=([0, 0, 0], [1, 1, np.inf])
    )
    np.testing.assert_allclose(fit_curve(values), expected, rtol=1e-4)


def test_the_switch_fires_once_the_slope_is_lost():
    assert flat_head([0.0, 0.0, 0.0, 0.2, 0.4, 0.5]) == 2
    assert flat_head([0.0, 0.0, 0.0, 0.2, 0.4]) == 0  # three points would remain
    assert flat_head([0.1, 0.15, 0.2, 0.25, 0.3, 0.35]) == 0  # no steep part at all
    assert first_bend(rising(3)) == 9
    # Cut to its last point, as without the limit on trimming, this curve would never switch.
    assert first_bend(rising(8)) == first_bend(rising(8), trim=False) == 21
    assert first_bend(np.concatenate([np.zeros(5), rising(3)])) == 9 + 5  # a flat head
    # f' falls as exp(-x / 3): it has lost 90 % of f'(1) at 1 + 3 log 10 = 7.9.
    assert bend(Curve(0.7, 1.0, 3.0), 0.9, 100) == 1 + 7
    assert bend(Curve(0.0, 1.0, 3.0), 0.9, 100) is None
    assert bend(Curve(0.5, 0.0, 3.0), 0.9, 100) is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=15), st.integers(1, 20), st.booleans())
def test_any_curve_gives_a_decision(values, rounds, trim):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert has_bent(values, 0.9, rounds, trim=trim) in (True, False)
