"""ADELE: three scales, one curve over all sites, corrected masks."""

import warnings

import numpy as np
import pytest
import torch
from at_site import site_of, station_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, curve_fit
from torch import nn

from feda3i import losses
from feda3i.core.messages import Order, Replies, Reply
from feda3i.engine.run import job_of, run
from feda3i.errors import RecipeError
from feda3i.methods.adele import (
    Curve,
    at_scale,
    bend,
    correct,
    fit_curve,
    flat_head,
    has_bent,
    scaled_shape,
)
from feda3i.methods.base import make_method
from feda3i.methods.corrected import current_masks, pack_masks
from feda3i.testing import Subject, outcome_of, tiny_federation

OFF = {"correct": [False]}
ON = {"correct": [True]}


def trained_station(tmp_path, rounds=4, **options):
    """Return a station and parameters that predict the tiny discs with some certainty."""
    federation = options.pop("federation", None) or tiny_federation(sites=1)
    recipe = Subject("fedavg", {}).recipe(rounds=rounds, train={"epochs": 3, "batch": 2})
    values = outcome_of(recipe, federation)
    station = station_of(tmp_path, "adele", federation, **options)
    params = station.job.initial._replace(values=values.values)
    return station, params


# -- the loss -------------------------------------------------------------------------------------


def test_the_step_is_the_formula(tmp_path):
    options = {"lam": 2.0, "rho": 0.6}
    federation = tiny_federation(size=48, classes=2)
    site = site_of(tmp_path, "adele", settings=OFF, federation=federation, **options)
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


def test_uncertain_images_do_not_count():
    views = [torch.tensor([0.5, -0.5, 0.1, 4.0]).reshape(2, 1, 2, 1) * s for s in (1, 2, -0.5)]
    method = make_method("adele", {})
    divergence, mean = losses.disagreement(views)
    sure = torch.maximum(mean, 1 - mean) >= 0.8
    assert not sure.any()
    assert method.agreement(views) == 0
    views[2][1, 0, 1, 0] = 8.0  # now one pixel of the second image is certain
    divergence, _ = losses.disagreement(views)
    torch.testing.assert_close(method.agreement(views), divergence[1].sum() / 4)


# -- correction -----------------------------------------------------------------------------------


def discs():
    grid = np.stack(np.meshgrid(np.arange(40), np.arange(40), indexing="ij"))
    away = np.sqrt(((grid - 20) ** 2).sum(0))
    small, large = (torch.from_numpy(away < radius)[None, None] for radius in (8, 12))
    return small, large


def test_certain_pixels_take_the_predicted_class():
    small, large = discs()
    p = torch.where(large, 0.9, 0.1)
    assert torch.equal(correct(small, p, 0.8), large)
    assert torch.equal(correct(large, torch.where(small, 0.9, 0.1), 0.8), small)
    p = torch.where(large & ~small, 0.75, torch.where(small, 0.9, 0.1))
    assert torch.equal(correct(small, p, 0.8), small)  # the ring is not certain enough


def test_tau_is_a_strict_bound():
    small, large = discs()
    certain = large.float()  # probabilities of exactly 0 and 1
    assert torch.equal(correct(small, certain, 1.0), small)
    assert torch.equal(correct(small, torch.where(large, 0.75, 0.25), 0.75), small)


def test_an_absent_class_stays_absent():
    small, large = discs()
    masks = torch.cat([small, torch.zeros_like(small)], dim=1)
    p = torch.where(torch.cat([large, large], dim=1), 0.95, 0.05)
    corrected = correct(masks, p, 0.8)
    assert torch.equal(corrected[:, :1], large)
    assert not corrected[:, 1].any()


def test_a_collapse_leaves_the_mask_alone():
    small, _ = discs()
    nothing = torch.full((1, 1, 40, 40), 0.01)
    assert torch.equal(correct(small, nothing, 0.8), small)
    # 12 % of the frame remain: background does not exceed 95 %, so this shrinking is believed.
    full = torch.ones_like(small)
    assert torch.equal(correct(full, torch.where(small, 0.9, 0.1), 0.8), small)


def test_masks_at_the_site_are_corrected_with_the_mean_over_scales(tmp_path):
    station, params = trained_station(tmp_path, tau=0.55)
    given = station.cases.masks.copy()
    reply = station.answer(Order("fit", 9, "site-1", params, ON))
    site = station._site(
        Order("fit", 10, "site-1", params, ON), station.recall(Order("fit", 10, "site-1", params))
    )
    station.predictor.load(params)
    station.predictor.network.eval()
    batch = site.batch(np.arange(4))
    with torch.inference_mode():
        views = [
            at_scale(station.predictor.network, batch.images, scale) for scale in (0.7, 1.0, 1.5)
        ]
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
    federation = tiny_federation(classes=2)
    site = site_of(tmp_path, "adele", federation=federation, tau=0.5)
    batch = site.batch(np.arange(4))
    site.method.look(site, [False, True])
    current = current_masks(site, batch)
    assert torch.equal(current[:, 0], batch.masks[:, 0])
    assert not torch.equal(current[:, 1], batch.masks[:, 1])
    site.method.look(site, [True, False])
    assert torch.equal(current_masks(site, batch)[:, 1], current[:, 1])


def test_each_correction_begins_with_the_given_masks(tmp_path):
    site = site_of(tmp_path, "adele")
    batch = site.batch(np.arange(4))
    site.memory["masks"] = pack_masks(site.given_masks() == 0)
    site.network.outc.weight.data.zero_()
    site.network.outc.bias.data.zero_()  # p = 1/2 everywhere: nothing is certain
    numbers = site.method.look(site, [True])
    assert numbers["annotated"] == [int(batch.masks.sum())]
    assert torch.equal(current_masks(site, batch), batch.masks)


# -- the switch -----------------------------------------------------------------------------------


def server_of(rounds=20, classes=1, **options):
    federation = tiny_federation(classes=classes)
    job = job_of(Subject("adele", options).recipe(rounds=rounds), federation)
    server = job.server({"site-1": 4, "site-2": 4})
    job.method.start(server)
    server.method = job.method  # for tests that call its hooks
    return server


def tell(server, round, counts):
    """Digest one round's counts, ``{site: (predicted, annotated, both)}`` with lists by class."""
    names = ("predicted", "annotated", "both")
    items = [
        Reply("fit", round, site, 4, dict(zip(names, numbers, strict=True)))
        for site, numbers in counts.items()
    ]
    server.method.digest(server, Replies("fit", round, tuple(items)))


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
        iou = [round(value * 1e6), 0]
        tell(server, t + 1, {"site-1": ([1000000] * 2, [1000000] * 2, _both(iou))})
    # Point 9 (after nine rounds) decides; it arrives with round 10 and acts from round 11 on.
    assert server.state["first"] == [11, None]
    plan = server.method.plan
    assert plan(server, 10).settings == {"correct": [False, False]}
    assert [plan(server, r).settings["correct"] for r in (11, 12, 99)] == [[True, False]] * 3


def _both(millionths):
    """Return the overlap of two sets of a million pixels with these IoUs."""
    return [round(1e6 * 2 * v / (1e6 + v)) for v in millionths]


def test_a_network_that_cannot_take_a_scale_is_named_before_training(tmp_path):
    file = tmp_path / "strict.py"
    file.write_text(
        "from torch import nn\n"
        "def factory(channels, classes):\n"
        "    fixed = (nn.Flatten(2), nn.Linear(2304, 2304), nn.Unflatten(2, (48, 48)))\n"
        "    return nn.Sequential(nn.Conv2d(channels, 2, 1), *fixed, nn.Conv2d(2, classes, 1))\n"
    )
    recipe = Subject("adele", {}).recipe(model={"name": f"{file}:factory"})
    with pytest.raises(RecipeError, match=r"\(33, 33\).*method\.scales"):
        run(recipe, tmp_path / "run", federation=tiny_federation(size=48))


# -- images seen at another scale ------------------------------------------------------------------


@pytest.mark.parametrize("side", [16, 20, 32, 33, 45])
def test_small_sides_are_not_made_smaller_than_a_network_takes(side):
    assert scaled_shape((side,), 0.7) == (min(side, 32),)


@pytest.mark.parametrize("shape", [(40, 50), (34, 36, 40)])
def test_logits_come_back_at_the_size_of_the_images(shape):
    sizes = []

    class Spy(nn.Module):
        def forward(self, x):
            sizes.append(tuple(x.shape[2:]))
            return x.mean(1, keepdim=True)

    images = torch.rand(2, 3, *shape)
    for scale in (0.9, 1.0, 1.5):
        assert at_scale(Spy(), images, scale).shape == (2, 1, *shape)
    assert sizes[1] == shape
    assert sizes[2] == tuple(int(1.5 * side) for side in shape)


def test_a_linear_picture_is_the_same_at_every_scale():
    # Bilinear with aligned corners keeps linear functions, there and back.
    y, x = torch.meshgrid(torch.linspace(0, 1, 40), torch.linspace(0, 3, 50), indexing="ij")
    images = (2 * y - x)[None, None]
    for scale in (0.9, 1.5):
        torch.testing.assert_close(at_scale(nn.Identity(), images, scale), images)


# -- the switch of adele: curve fit, trimming, bend ------------------------------------------------


def rising(constant, points=100):
    return 0.7 * (1 - np.exp(-np.arange(points) / constant))


def first_bend(values, r=0.9, rounds=100, **options):
    """Return the round at which the switch fires, counted from 0 for the initial model."""
    fired = (m for m in range(len(values)) if has_bent(values[: m + 1], r, rounds, **options))
    return next(fired, None)


def test_slope_is_the_derivative():
    curve = Curve(0.8, 0.6, 2.5)
    for x in (0.3, 1.0, 7.0):
        numeric = approx_fprime(np.array([x]), lambda v: float(curve.value(v)[0]), 1e-7)
        assert curve.slope(np.array([x]))[0] == pytest.approx(numeric[0], rel=1e-4)


def test_fit_is_the_weighted_bounded_fit_of_scipy():
    values = rising(4, 15) + 0.02 * np.sin(np.arange(15))
    x, error = np.linspace(0, 15, 15), np.geomspace(1, 0.1, 15)
    f = lambda x, a, b, c: a * (1 - np.exp(-(x**b) / c))
    expected, _ = curve_fit(
        f, x, values, p0=(1, 1, 1), sigma=error, bounds=([0, 0, 0], [1, 1, np.inf])
    )
    np.testing.assert_allclose(fit_curve(values), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("values", "cut"),
    [
        ([0.0, 0.0, 0.0, 0.2, 0.4, 0.5], 2),
        ([0.0, 0.2, 0.4, 0.5], 0),
        ([0.0, 0.0, 0.2, 0.4, 0.5], 1),
        ([0.0, 0.0, 0.0, 0.2, 0.4], 0),  # three points would remain
        ([0.1, 0.15, 0.2, 0.25, 0.3, 0.35], 0),  # no steep part at all
        ([0.5], 0),
    ],
)
def test_flat_head(values, cut):
    assert flat_head(values) == cut


def test_synthetic_curves_of_the_specification():
    assert first_bend(rising(3)) == 9
    # Cut to its last point, as without the limit on trimming, this curve would never switch.
    assert first_bend(rising(8)) == 21
    assert first_bend(rising(8), trim=False) == 21


def test_a_flat_head_delays_the_switch_by_its_length():
    delayed = np.concatenate([np.zeros(5), rising(3)])
    assert first_bend(delayed) == first_bend(rising(3)) + 5


def test_bend_of_an_exponential():
    # f' falls as exp(-x / 3): it has lost 90 % of f'(1) at 1 + 3 log 10 = 7.9.
    assert bend(Curve(0.7, 1.0, 3.0), 0.9, 100) == 1 + 7
    assert bend(Curve(0.0, 1.0, 3.0), 0.9, 100) is None
    assert bend(Curve(0.5, 0.0, 3.0), 0.9, 100) is None


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=15),
    st.integers(1, 20),
    st.booleans(),
)
def test_any_curve_gives_a_decision(values, rounds, trim):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert has_bent(values, 0.9, rounds, trim=trim) in (True, False)
