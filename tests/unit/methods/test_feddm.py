"""FedDM: invariants of the method, calibration, peers over rounds, the neutral setting."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from feda3i.core.messages import Params, Replies, Reply
from feda3i.core.server import Gathered
from feda3i.methods import feddm
from feda3i.methods.base import make_method
from feda3i.methods.feddm import calibrate_masks, choose_peers, count_votes, trusted
from feda3i.testing import tiny_federation
from stepping import Steps, played

FEW = {"probes": 4, "stop": 2}


def test_truth_table_of_the_three_opinions():
    """What the site's own, the nearest and the farthest network trust decides of a pixel."""
    opinions = torch.cartesian_prod(*[torch.tensor([True, False])] * 3).T.reshape(3, 1, 1, 8)
    targets, kept = calibrate_masks(torch.ones(1, 1, 8), *opinions)
    clean, background, ignored = (1, True), (0, True), (0, False)
    expected = [clean, ignored, *[background] * 4, ignored, ignored]
    assert list(zip(targets.flatten().tolist(), kept.flatten().tolist(), strict=True)) == expected


@given(st.integers(0, 2**32 - 1), st.integers(1, 100))
def test_trusted_pixels_are_those_of_smallest_loss(seed, percent):
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(0, 3, (1, 1, 60)))
    masks = torch.from_numpy((rng.random((1, 1, 60)) < 0.7).astype(float))
    found = trusted(logits, masks, percent / 100).numpy().ravel()
    inside = masks.numpy().ravel() > 0
    loss = -np.log(1 / (1 + np.exp(-logits.numpy().ravel())) + 1e-10)
    k = inside.sum() * percent // 100  # whole numbers: no rounding of p * |FG|
    limit = np.sort(loss[inside])[k - 1] if k > 5 else np.inf  # a small mask is kept whole
    np.testing.assert_array_equal(found, inside & (loss <= limit))
    ties = torch.tensor([5.0] * 4 + [1.0] * 8).reshape(1, 1, -1)
    assert trusted(ties, torch.ones(1, 1, 12), 0.5).all()


def test_the_trusted_share_falls_as_printed():
    method = make_method("feddm", {})
    shares = [method.trusted_share(t) for t in (0, 1, 10, 50, 99)]
    assert shares == pytest.approx([1, 0.988, 0.88, 0.4, 0.4], abs=1e-12)
    assert make_method("feddm", {"stop": 25}).trusted_share(25) == pytest.approx(0.4)


def test_the_loss_is_the_mean_over_kept_pixels():
    torch.manual_seed(5)
    logits = torch.randn(2, 1, 4, 4)
    targets = (torch.rand(2, 1, 4, 4) > 0.5).float()
    kept = (torch.rand(2, 1, 4, 4) > 0.3) | targets.bool()
    pixels = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    ce = make_method("feddm", {}).partial_loss(logits, targets, kept)
    assert float(ce) == pytest.approx(float(pixels[kept].mean()), abs=1e-6)
    p, y = torch.sigmoid(logits) * kept, targets
    dice = (2 * (p * y).sum((2, 3)) + 1) / (p.sum((2, 3)) + y.sum((2, 3)) + 1)
    dc = make_method("feddm", {"loss": "dc"}).partial_loss(logits, targets, kept)
    assert float(dc) == pytest.approx(float(0.5 * ce + 0.5 * (1 - dice).mean()), abs=1e-6)
    nothing = torch.zeros_like(targets)
    assert make_method("feddm", {}).partial_loss(logits, nothing, nothing.bool()) == 0


def test_peers_travel_once_known_and_a_lost_site_keeps_its_own_but_is_nobodys(tmp_path):
    steps = Steps(tmp_path, "feddm", FEW, tiny_federation(sites=4))
    steps.lose("site-2", 2)
    events = [steps.play()]
    before = steps.server.state["peers"]["site-2"]
    events.append(steps.play())
    peers = dict(steps.server.state["peers"])
    assert peers["site-2"] == before
    assert all("site-2" not in peers[name] for name in ("site-1", "site-3", "site-4"))
    wanted = {name for pair in peers.values() for name in pair}
    assert set(steps.server.state["networks"]) == wanted
    events.append(steps.play())
    orders = steps.transport.orders
    assert [sorted(o.networks) for o in orders] == [[]] * 4 + [["far", "near"]] * 8
    assert [o.settings["keep"] for o in orders[::4]] == pytest.approx([1, 0.7, 0.4])
    for event in events:
        assert set(event["peers"]) == set(steps.federation.names())
        assert all(site not in pair for site, pair in event["peers"].items())
        assert sum(event["weights"].values()) == pytest.approx(1)


def test_a_site_alone_trains_on_its_masks(tmp_path):
    alone = tiny_federation(sites=1)
    found = played(tmp_path, "feddm", FEW, alone, rounds=1)
    assert found == pytest.approx(played(tmp_path, "fedavg", None, alone, rounds=1), abs=1e-6)
    steps = Steps(tmp_path / "more", "feddm", FEW, alone)
    steps.play(2)
    assert steps.server.state["peers"] == {}


def gather(steps, rows):
    gathered = Gathered(steps.server.layout, len(rows))
    for values in rows:
        gathered.add(Params(values.astype(np.float32), steps.server.params.counts))
    return gathered


def merge_of(steps, rows):
    """Return what the method merges of these uploads, without peers."""
    gathered = gather(steps, rows)
    replies = tuple(Reply("fit", 2, f"site-{k + 1}", 4, {"loss": 0.0}) for k in range(len(rows)))
    return steps.method.merge(steps.server, Replies("fit", 2, replies), gathered).values


def test_running_variances_stay_positive(tmp_path):
    steps = Steps(tmp_path, "feddm", {"ratio": 0})
    entries = [e for e in steps.server.layout.floats if e.name.endswith("running_var")]
    merge_of(steps, [steps.values] * 2)
    merged = merge_of(steps, [steps.values - 3.0] * 2)
    assert entries
    assert all((merged[e.start : e.stop] == np.float32(1e-6)).all() for e in entries)


def test_conflicting_updates_do_not_cancel_and_history_moves_slowly(tmp_path):
    steps = Steps(tmp_path, "feddm", {"ratio": 0})
    old, rng = steps.values.astype(np.float64), np.random.default_rng(0)
    old[steps.server.layout.trained() == 0] = 1.0
    steps.server.params = Params(old.astype(np.float32), steps.server.params.counts)
    first = rng.normal(0, 0.01, old.shape)
    merged = merge_of(steps, [old + first, old + first])
    assert merged == pytest.approx(old + first, abs=1e-6)
    history = steps.server.state["history"].astype(np.float64)
    assert history == pytest.approx(first, abs=1e-6)
    agree = np.abs(rng.normal(0, 0.01, (2, *old.shape)))
    merged = merge_of(steps, old + agree)
    assert merged == pytest.approx(old + agree.mean(axis=0), abs=1e-6)
    expected = 0.99 * history + 0.01 * agree.mean(axis=0)
    assert steps.server.state["history"] == pytest.approx(expected, abs=1e-7)
    opposite = merge_of(steps, [old + first, old - first])
    assert opposite == pytest.approx(old, abs=1e-6)


def test_votes_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    votes, expected = np.zeros((2, 2, 6, 6), int)
    for _ in range(20):
        maps = rng.random((6, 1, 5, 5), dtype=np.float32)
        count_votes(*votes, maps)
        flat = maps.reshape(6, -1).astype(float)
        apart = ((flat[:, None] - flat[None]) ** 2).sum(axis=2)
        nearest = (apart + np.diag([np.inf] * 6)).argmin(1)
        for kind, chosen in enumerate((nearest, apart.argmax(1))):
            expected[kind, np.arange(6), chosen] += 1
    np.testing.assert_array_equal(votes, expected)
    votes = np.zeros((2, 4, 4), int)  # equal networks: the lowest position
    count_votes(*votes, np.full((4, 1, 3, 3), 0.5, np.float32))
    assert votes.argmax(axis=2).tolist() == [[1, 0, 0, 0]] * 2


def test_the_choice_does_not_depend_on_how_many_probes_fit_into_memory(tmp_path, monkeypatch):
    steps = Steps(tmp_path, "feddm")
    layout = steps.server.layout
    noise = np.random.default_rng(0).normal(0, 0.05, (5, layout.size)) * layout.trained()
    gathered = gather(steps, steps.values + noise)
    whole = choose_peers(steps.server, gathered, 7)
    monkeypatch.setattr(feddm, "_CHUNK", 1)
    single = choose_peers(steps.server, gathered, 7)
    np.testing.assert_array_equal(whole, single)
    images = feddm._images(steps.server, range(20)).numpy()  # uniform in 0..255
    assert 0 <= images.min() < images.max() <= 255
    assert images.mean() == pytest.approx(127.5, abs=3)
