"""Secure aggregation without a network: sums, masks, lost sites, and servers that lie."""

import numpy as np
import pytest

pytest.importorskip("cryptography")
pytest.importorskip("Crypto")

from feda3i.core.messages import Params
from feda3i.errors import RunError, WireError
from feda3i.privacy.fixed import FRACTION, LARGEST, quantise, restore
from feda3i.privacy.opening import Offer, Opening, new_attempt
from feda3i.privacy.rules import check_weights_of, digest_of, needed_of
from feda3i.privacy.vault import Vault

SPANS = [(0, 40, 0), (40, 100, 1)]
NAMES = [f"site-{k}" for k in range(5)]


def networks(count=5, seed=0):
    return np.random.default_rng(seed).normal(0, 3, (count, 100)).astype(np.float32)


def table(count=5, seed=1):
    drawn = np.random.default_rng(seed).uniform(0.5, 1, (count, 2))
    return drawn / drawn.sum(axis=0)


class Play:
    """Five sites and a server that plays by the rules, until a test says otherwise."""

    def __init__(self, folder, dropouts="auto", max_weight=0.5, names=NAMES):
        self.names = names
        self.vaults = {
            name: Vault(name, folder / name, folder / name / "run", dropouts, max_weight)
            for name in names
        }
        self.values, self.weights = networks(len(names)), table(len(names))
        self.params = digest_of(Params(self.values[0], np.zeros(1, np.int64)))
        self.round = 1

    def keys(self):
        peers = {name: self.vaults[name].introduce()["identity"] for name in self.names}
        attempt = new_attempt()
        message = {"attempt": attempt, "peers": peers}
        offers = {
            name: Offer.read(vault.offer(self.round, message), set(self.names) - {name})
            for name, vault in self.vaults.items()
        }
        dropouts = self.vaults[self.names[0]].dropouts
        opening = Opening(attempt, peers, offers, needed_of(len(peers), dropouts))
        opening.settle(self.round, self.weights, self.params)
        return opening

    def masked(self, opening, name, message=None):
        vault, k = self.vaults[name], self.names.index(name)
        own = vault.enter(self.round, message or opening.order(name), 2, self.params)
        return vault.mask(self.round, quantise(self.values[k], own, SPANS))

    def shares(self, opening, stayed, asked=None):
        message = {"attempt": opening.attempt, "stayed": list(stayed)}
        return {n: self.vaults[n].open(self.round, message) for n in asked or stayed}

    def plain(self, stayed):
        """Return what the sum must be: the integers without any mask."""
        rows = [self.names.index(name) for name in stayed]
        return sum(quantise(self.values[k], self.weights[k], SPANS) for k in rows)


def test_quantised_sums_are_the_weighted_mean_to_the_last_digits():
    values, weights = networks(), table()
    total = sum(quantise(row, own, SPANS) for row, own in zip(values, weights, strict=True))
    mean = restore(total, np.ones(2), SPANS, "float64")
    for start, stop, stage in SPANS:
        expected = weights[:, stage] @ values[:, start:stop].astype(np.float64)
        assert np.abs(mean[start:stop] - expected).max() <= 5 * 2.0 ** -(FRACTION + 1)


def test_the_largest_values_do_not_overflow_and_larger_ones_are_refused():
    values = np.full(100, LARGEST, np.float32)
    total = sum(quantise(values, row, SPANS) for row in table())
    assert np.allclose(restore(total, np.ones(2), SPANS, "float64"), LARGEST)
    with pytest.raises(RunError, match="secure aggregation sums values up to"):
        quantise(values * 2, np.ones(2), SPANS)
    with pytest.raises(RunError):
        quantise(np.array([np.nan] * 100, np.float32), np.ones(2), SPANS)


@pytest.mark.parametrize(
    ("lost", "silent"), [((), ()), (("site-2",), ()), ((), ("site-4",)), (("site-1",), ())]
)
def test_masks_cancel_to_the_bit_whoever_is_lost(tmp_path, lost, silent):
    play = Play(tmp_path)
    opening = play.keys()
    stayed = [name for name in NAMES if name not in lost]
    for name in stayed:
        opening.add(play.masked(opening, name))
    assert opening.needed == 4
    answers = play.shares(opening, stayed, [name for name in stayed if name not in silent])
    assert np.array_equal(opening.open(stayed, answers), play.plain(stayed))


def test_what_a_site_sends_looks_like_noise(tmp_path):
    play = Play(tmp_path)
    opening = play.keys()
    sent = play.masked(opening, "site-0")
    own = quantise(play.values[0], play.weights[0], SPANS)
    high = (sent >> np.uint64(56)).astype(np.int64)  # plain values have all-zero or all-one bytes
    assert len(set(high.tolist())) > 60
    assert len(set((own >> np.uint64(56)).tolist())) <= 2
    assert np.array_equal(play.masked(opening, "site-0"), sent)  # a repeated order


def test_a_wrong_share_is_found_and_left_out(tmp_path):
    play = Play(tmp_path)
    opening = play.keys()
    for name in NAMES:
        opening.add(play.masked(opening, name))
    answers = play.shares(opening, NAMES)
    answers["site-0"]["self_shares"] = dict.fromkeys(NAMES, "00" * 16)
    assert np.array_equal(opening.open(NAMES, answers), play.plain(NAMES))
    answers["site-1"]["self_shares"] = dict.fromkeys(NAMES, "00" * 16)
    with pytest.raises(RunError, match="cannot be unmasked"):
        opening.open(NAMES, answers)


# -- servers that lie -----------------------------------------------------------------------------


def test_a_site_opens_one_sum_of_a_round(tmp_path):
    play = Play(tmp_path)
    opening = play.keys()
    for name in NAMES:
        play.masked(opening, name)
    first = play.shares(opening, NAMES, ["site-0"])
    assert play.shares(opening, NAMES, ["site-0"]) == first
    with pytest.raises(WireError, match="another sum of round 1"):
        play.shares(opening, NAMES[:4], ["site-0"])
    again = play.keys()  # as if the server had died and come back
    for name in NAMES:
        play.masked(again, name)
    play.shares(again, NAMES, ["site-0"])  # the same sum may be opened again
    with pytest.raises(WireError, match="another sum of round 1"):
        play.shares(again, NAMES[:4], ["site-0"])


def test_a_server_that_tells_sites_different_weights_is_left_with_noise(tmp_path):
    play = Play(tmp_path)
    opening = play.keys()
    for name in NAMES:
        message = opening.order(name)
        if name == "site-0":
            message = {**message, "weights": {**opening.weights}}
            a, b = opening.weights["site-1"], opening.weights["site-2"]
            message["weights"] |= {"site-1": b, "site-2": a}
        opening.add(play.masked(opening, name, message))
    found = opening.open(NAMES, play.shares(opening, NAMES))
    assert np.mean(found == play.plain(NAMES)) < 0.05


def test_a_site_masks_one_update_per_attempt(tmp_path):
    play = Play(tmp_path)
    opening = play.keys()
    play.masked(opening, "site-0")
    message = opening.order("site-0")
    message["weights"] = {**message["weights"]}
    a, b = message["weights"]["site-1"], message["weights"]["site-2"]
    message["weights"] |= {"site-1": b, "site-2": a}
    with pytest.raises(WireError, match="tell the sites apart"):
        play.masked(opening, "site-0", message)


def test_a_false_key_is_noticed(tmp_path):
    play = Play(tmp_path)
    opening = play.keys()
    message = opening.order("site-0")
    own = Vault("server", tmp_path / "x", tmp_path / "x", "auto", 1.0).introduce()["identity"]
    with pytest.raises(WireError, match="false key"):
        play.masked(opening, "site-0", {**message, "keys": {**message["keys"], "site-1": own}})


def test_a_false_identity_is_noticed_from_the_second_time_on(tmp_path):
    play = Play(tmp_path)
    opening = play.keys()
    other = Vault("site-1", tmp_path / "x", tmp_path / "x", "auto", 1.0).introduce()["identity"]
    peers = {**opening.peers, "site-1": other}
    with pytest.raises(WireError, match="identity of site 'site-1'"):
        play.vaults["site-0"].offer(2, {"attempt": new_attempt(), "peers": peers})


def test_secrets_are_for_the_owner_of_the_files_alone(tmp_path):
    play = Play(tmp_path)
    play.keys()
    for path in (tmp_path / "site-0" / "identity.key", tmp_path / "site-0" / "run" / "round.json"):
        assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "site-0" / "identity.pub").read_text().strip() != ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stayed": NAMES[:3]}, "at least 4 sites"),
        ({"stayed": NAMES[1:]}, "this one among them"),
        ({"stayed": [*NAMES, "nobody"]}, "at least 4 sites"),
        ({"stayed": "site-0"}, "as a list of sites"),
        ({"attempt": "00" * 16}, "no secrets for this attempt"),
    ],
)
def test_a_site_does_not_unmask_just_anything(tmp_path, change, words):
    play = Play(tmp_path)
    opening = play.keys()
    play.masked(opening, "site-0")
    message = {"attempt": opening.attempt, "stayed": NAMES, **change}
    with pytest.raises(WireError, match=words):
        play.vaults["site-0"].open(1, message)


def test_more_than_half_must_stay_and_two_sites_cannot_hide_each_other():
    for sites in range(3, 40):
        for dropouts in ("auto", (sites - 1) // 2, 0):
            assert needed_of(sites, dropouts) > sites / 2
        with pytest.raises(WireError, match="more than half"):
            needed_of(sites, (sites - 1) // 2 + 1)
    with pytest.raises(WireError, match="fewer cannot hide each other"):
        needed_of(2, 0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"a": [0.9], "b": [0.1], "c": [0.0]}, "90.0% of the weight"),
        ({"a": [0.5], "b": [0.2], "c": [0.2]}, "sum to one"),
        ({"a": [0.5], "b": [0.7], "c": [-0.2]}, "of 0 or more"),
        ({"a": [0.5, 0.5], "b": [0.5, 0.5], "c": [0.0, 0.0]}, "per site and stage"),
    ],
)
def test_weights_that_single_a_site_out_are_refused(weights, words):
    with pytest.raises(WireError, match=words):
        check_weights_of(weights, 1, 0.5)
