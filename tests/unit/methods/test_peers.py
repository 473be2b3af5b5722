"""Peers: votes on probability maps, and networks compared on probes."""

import numpy as np
import pytest

from feda3i.core.messages import Params
from feda3i.core.server import Gathered
from feda3i.methods import peers
from feda3i.methods.peers import Votes, choose_peers
from stepping import Steps


def naive_votes(maps):
    near, far = [], []
    for i, own in enumerate(maps):
        distances = {
            j: float(np.sqrt(((own.astype(float) - other) ** 2).sum()))
            for j, other in enumerate(maps)
            if j != i
        }
        near.append(min(distances, key=lambda j: (distances[j], j)))
        far.append(min(distances, key=lambda j: (-distances[j], j)))
    return near, far


def test_votes_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    votes, expected = Votes(6), np.zeros((2, 6, 6), int)
    for _ in range(20):
        maps = rng.random((6, 1, 5, 5), dtype=np.float32)
        votes.count(maps)
        for kind, chosen in enumerate(naive_votes(maps)):
            expected[kind, np.arange(6), chosen] += 1
    np.testing.assert_array_equal([votes.near, votes.far], expected)
    assert not votes.near.diagonal().any()
    assert not votes.far.diagonal().any()


def test_equal_networks_vote_for_the_lowest_position():
    votes = Votes(4)
    votes.count(np.full((4, 1, 3, 3), 0.5, np.float32))
    assert votes.near.argmax(axis=1).tolist() == [1, 0, 0, 0]
    assert votes.far.argmax(axis=1).tolist() == [1, 0, 0, 0]


def gather(steps, seeds):
    """Return networks that differ from the initial one by random weights, one per seed."""
    layout, gathered = steps.server.layout, Gathered(steps.server.layout, len(seeds))
    for seed in seeds:
        noise = np.random.default_rng(seed).normal(0, 0.05, layout.size) * layout.trained()
        values = (steps.values + noise).astype(np.float32)
        gathered.add(Params(values, steps.server.params.counts))
    return gathered


def test_a_network_and_its_double_are_nearest(tmp_path):
    steps = Steps(tmp_path, "feddm")
    near, far = choose_peers(steps.server, gather(steps, [1, 2, 1, 3]), 5)
    assert near[[0, 2]].tolist() == [2, 0]
    assert all(far[k] not in (0, 2) for k in (0, 2))
    assert all(near[k] != k and far[k] != k for k in range(4))


def test_of_two_sites_each_is_both_peers_of_the_other(tmp_path):
    steps = Steps(tmp_path, "feddm")
    near, far = choose_peers(steps.server, gather(steps, [1, 2]), 3)
    assert near.tolist() == far.tolist() == [1, 0]


def test_the_choice_does_not_depend_on_how_many_probes_fit_into_memory(tmp_path, monkeypatch):
    steps = Steps(tmp_path, "feddm")
    gathered = gather(steps, [1, 2, 3, 4, 5])
    whole = choose_peers(steps.server, gathered, 7)
    monkeypatch.setattr(peers, "_MAPS", 1)
    single = choose_peers(steps.server, gathered, 7)
    np.testing.assert_array_equal(whole, single)


def test_probes_are_uniform_over_the_range_of_pixels(tmp_path):
    steps = Steps(tmp_path, "feddm")
    images = peers._images(steps.server, range(20)).numpy()
    assert images.shape == (20, 1, 32, 32)
    assert images.min() >= 0
    assert images.max() <= 255
    assert images.mean() == pytest.approx(127.5, abs=3)
    again = peers._images(steps.server, range(3, 5)).numpy()
    np.testing.assert_array_equal(images[3:5], again)
