"""Whole runs with secure aggregation: both engines, lost sites, resume, what is refused."""

import pytest

pytest.importorskip("cryptography")
pytest.importorskip("Crypto")

from feda3i.contract import _Dropping, _StopAfter, outcome_of, tiny_federation
from feda3i.core.messages import Missing
from feda3i.engine.run import resume, run
from feda3i.errors import RecipeError, RunError
from feda3i.privacy import sealing
from feda3i.recipe import validate


def recipe_of(rounds=2, method="fedavg", secure=None, options=None, **changes):
    return validate(
        {
            "rounds": rounds,
            "data": {"name": "contract", "size": 16},
            "model": {"name": "unet", "width": 2},
            "method": {"name": method, **(options or {})},
            "train": {"epochs": 1, "batch": 4},
            "evaluate": {"every": 100},
            "engine": {"workers": 1, "device": "cpu", "min_sites": 1},
            "secure": {"on": True, **(secure or {})},
            **changes,
        }
    )


def federation(sites=4):
    return tiny_federation(sites=sites, cases=2, size=16)


def rounds_of(outcome):
    return [event for event in outcome.events if event["event"] == "round"]


def test_masked_and_unmasked_sums_make_the_same_model(monkeypatch):
    recipe = recipe_of(2, "feda3i", {"max_weight": 0.9}, {"t1": 1, "safe": False})
    masked = outcome_of(recipe, federation())
    assert all(event["secure"]["lost"] == [] for event in rounds_of(masked))
    weights = rounds_of(masked)[-1]["weights"]
    assert len({tuple(row) for row in weights.values()}) > 1, "quality weighed nothing"
    monkeypatch.setattr(sealing, "add_mask", lambda vector, key, sign: None)
    assert outcome_of(recipe, federation()).sha256 == masked.sha256


def test_one_round_differs_from_a_plain_one_in_the_last_digits_only():
    import numpy as np

    secure = outcome_of(recipe_of(1), federation())
    plain = outcome_of(recipe_of(1, secure={"on": False}), federation())
    assert secure.values == pytest.approx(plain.values, abs=1e-5)
    assert np.any(secure.values != plain.values)


@pytest.mark.parametrize("task", ["keys", "fit", "unmask"])
def test_a_site_may_be_lost_at_any_step(task, monkeypatch):
    call = _Dropping.call

    def lose(self, orders):
        for order, answer in zip(orders, call(self, orders), strict=True):
            is_lost = (order.task, order.round, order.site) == (task, 2, "site-2")
            yield Missing(order.site, "lost on purpose") if is_lost else answer

    monkeypatch.setattr(_Dropping, "call", lose)
    outcome = outcome_of(recipe_of(2), federation(), lose=("nobody", ()))
    last = rounds_of(outcome)[-1]
    assert last["answered"] == (4 if task == "unmask" else 3)
    assert last["secure"]["lost"] == (["site-2"] if task == "fit" else [])
    assert last["secure"]["sites"] == (3 if task == "keys" else 4)
    if task != "unmask":
        assert last["missing"] == {"site-2": "lost on purpose"}


@pytest.mark.slow
def test_too_many_lost_sites_stop_the_run_and_it_can_be_resumed(tmp_path, monkeypatch):
    from feda3i.engine import transport

    recipe, sites = recipe_of(2), federation()
    whole = run(recipe, tmp_path / "whole", federation=sites)
    call = transport.LocalTransport.call

    def lose(self, orders):
        for order, answer in zip(orders, call(self, orders), strict=True):
            is_lost = (order.task, order.round) == ("fit", 2) and order.site > "site-2"
            yield Missing(order.site, "lost on purpose") if is_lost else answer

    with monkeypatch.context() as patch:
        patch.setattr(transport.LocalTransport, "call", lose)
        with pytest.raises(RunError, match=r"2 of 4 sites stayed, secure aggregation needs 3"):
            run(recipe, tmp_path / "broken", federation=sites)
    assert resume(tmp_path / "broken", federation=sites).sha256 == whole.sha256


def test_a_resumed_run_ends_with_the_same_model(tmp_path):
    recipe, sites = recipe_of(2), federation()
    whole = run(recipe, tmp_path / "whole", federation=sites)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "broken", federation=sites, listener=_StopAfter(1))
    assert resume(tmp_path / "broken", federation=sites).sha256 == whole.sha256
    saved = (tmp_path / "broken" / "memory").rglob("*")
    assert any(path.name == "round.json" for path in saved)


@pytest.mark.parametrize(
    ("method", "options", "changes", "words"),
    [
        ("feddm", {}, {}, "method 'feddm' cannot work with sums only"),
        ("fednoro", {}, {}, "compares the networks of noisy sites"),
        ("fedmix", {}, {}, "follows from its loss after the training"),
        ("fedcorr", {}, {}, "perhaps one alone"),
        ("local", {}, {}, "keeps the network of every site"),
        ("redraw", {"then": "feddm"}, {}, "single networks"),
        ("fedavg", {}, {"engine": {"guard": "clip"}}, "engine.guard compares"),
        ("fedavg", {}, {"engine": {"merge": "median"}}, "engine.merge compares"),
        ("fedavg", {}, {"model": {"name": "unet", "statistics": "exact"}}, "of single sites"),
    ],
)
def test_what_needs_single_networks_is_refused(method, options, changes, words, tmp_path):
    with pytest.raises(RecipeError, match=words):
        run(recipe_of(1, method, None, options, **changes), tmp_path / "r", federation=federation())
    assert not (tmp_path / "r").exists()


def test_two_sites_and_heavy_sites_are_refused(tmp_path):
    with pytest.raises(RunError, match="needs 3 to 1000 sites"):
        run(recipe_of(1), tmp_path / "two", federation=federation(2))
    with pytest.raises(RunError, match=r"secure\.max_weight"):
        run(recipe_of(1, secure={"max_weight": 0.2}), tmp_path / "four", federation=federation())


def test_a_lost_node_of_a_network_does_not_stop_the_sum(tmp_path):
    pytest.importorskip("flwr")
    from flwr.app import Error, Message

    from consortium import Trial, site_names, tiny, weights_of

    recipe = tiny(
        2,
        sites=4,
        data={"cases": 2},
        model={"width": 2},
        engine={"min_sites": 3},
        secure={"on": True},
    )
    local = run(recipe, tmp_path / "local")
    trial = Trial(tmp_path / "whole", recipe, site_names(4))
    assert trial.play().sha256 == local.sha256
    first, second = trial.events("round")
    values = sum(tensor.size for tensor in weights_of(local.path).values() if tensor.size > 1)
    assert min(first["bytes_received"].values()) > 8 * values  # each has 4 bytes otherwise
    state = tmp_path / "whole" / "state" / "site-01"
    assert (state / "identity" / "peers.json").exists()

    def lose(name, reply):
        if name == "site-02" and reply.content["header"]["kind"] == "fit":
            trial.grid.online.discard(name)
            return Message(Error(5, "node unavailable"), reply_to=reply)
        return reply

    trial = Trial(tmp_path / "faults", recipe, site_names(4), lose)
    trial.play()
    first, second = trial.events("round")
    assert first["secure"] == {"sites": 4, "needed": 3, "lost": ["site-02"]}
    assert second["secure"] == {"sites": 3, "needed": 3, "lost": []}
    assert list(first["missing"]) == ["site-02"]
