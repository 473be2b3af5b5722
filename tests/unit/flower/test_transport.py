"""Faults on the network: a round goes on with those who answered; the log says who did not."""

import json

import numpy as np
import pytest
from flwr.app import Error, Message

from attacks import only
from consortium import Trial, site_names, tiny
from feda3i.core.messages import Missing
from feda3i.engine.console import Silent
from feda3i.engine.run import describe, job_of, resume, run_rounds
from feda3i.engine.run_folder import RunFolder
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.errors import RunError
from feda3i.simulation.federation import federation_of
from listeners import After, StopAfter

RECIPE = tiny(rounds=2, engine={"min_sites": 2})
LOST = "site-02"


@pytest.fixture(scope="module")
def without_site(tmp_path_factory):
    """Return the model of two rounds, the first of which site-02 missed."""
    folder = tmp_path_factory.mktemp("without")

    class Dropping(LocalTransport):
        def call(self, orders):
            for order, answer in zip(orders, super().call(orders), strict=True):
                is_lost = order.site == LOST and order.round == 1
                yield Missing(order.site, "dropped") if is_lost else answer

    with one_thread():
        federation = federation_of(RECIPE)
        job = job_of(RECIPE, federation)
        run = RunFolder.create(folder / "run", RECIPE, {"data": describe(federation)})
        return run_rounds(run, job, Dropping(job, federation, folder), Silent()).sha256


def back_after(trial, rounds):
    """Bring the lost site back after so many rounds."""
    return After(lambda number: trial.grid.online.add(LOST) if number == rounds else None)


def trial_of(folder, tamper=None, rounds=2, method="fedavg", options=None, **engine):
    made = tiny(rounds, method=method, options=options, engine={"min_sites": 2, **engine})
    return Trial(folder, made, site_names(3), tamper)


def test_a_late_site_is_left_out_at_the_deadline(tmp_path, without_site):
    trial = trial_of(tmp_path, only(LOST, "fit", lambda _: None, [1]), deadline=2.0)
    result = trial.play()
    assert "deadline" in trial.events("round")[0]["missing"][LOST]
    assert result.sha256 == without_site


def test_a_node_killed_in_a_round_is_left_out_while_others_work(tmp_path, without_site):
    trial = trial_of(tmp_path)

    def kill(reply):
        trial.grid.online.discard(LOST)
        trial.grid.activated[LOST] = "2"
        return Message(Error(5, "node unavailable"), reply_to=reply)

    trial.grid.tamper = only(LOST, "fit", kill, [1])
    result = trial.play(listener=back_after(trial, 1))
    first, second = trial.events("round")
    assert "offline" in first["missing"][LOST]
    assert second["missing"] == {}
    assert result.sha256 == without_site


def test_a_node_restarted_in_a_round_is_asked_again(tmp_path):
    trial = trial_of(tmp_path, min_sites="all")
    forgotten = []

    def tamper(name, reply):
        header, order = reply.content["header"], reply.metadata.reply_to_message_id
        if name == LOST and header["kind"] == "fit" and not forgotten:
            forgotten.append(order)
            trial.grid.activated[LOST] = "2"  # it was started again and forgot its order
        return None if order in forgotten else reply

    trial.grid.tamper = tamper
    result = trial.play()
    first, second = trial.events("round")
    assert first["missing"] == second["missing"] == {}
    # Asked twice for the same round, it answered the same both times.
    assert len(forgotten) == 1
    assert result.sha256 == trial_of(tmp_path / "calm").play().sha256


def test_below_the_quorum_the_run_stops_and_says_why(tmp_path):
    trial = trial_of(tmp_path, only(LOST, "fit", lambda _: None), min_sites=3, deadline=1.0)
    with pytest.raises(RunError, match=r"2 of 3 sites answered, at least 3.*site-02.*deadline"):
        trial.play()


def test_a_site_joins_later(tmp_path):
    trial = trial_of(tmp_path, rounds=4, method="feda3i", options={"t1": 1})
    trial.grid.online.discard(LOST)
    trial.play(listener=back_after(trial, 2), patience=0.0)
    rounds = trial.events("round")
    assert [event["asked"] for event in rounds] == [2, 2, 3, 3]
    assert rounds[0]["absent"] == [LOST]
    assert trial.events("join") == [{"event": "join", "round": 3, "sites": {LOST: 3}}]
    for event in rounds[1:]:
        weights = np.array(list(event["weights"].values()))
        assert weights.sum(axis=0) == pytest.approx(1.0)
    assert sorted(rounds[3]["weights"]) == site_names(3)


def test_a_killed_server_resumes_to_the_same_end(tmp_path):
    recipe = tiny(rounds=3, method="elr")  # a method whose sites remember
    straight = Trial(tmp_path / "a", recipe, site_names(3)).play()
    trial = Trial(tmp_path / "b", recipe, site_names(3))
    with pytest.raises(KeyboardInterrupt):
        trial.play(listener=StopAfter(2))
    resumed = Trial(tmp_path / "b", recipe, site_names(3)).play(is_resumed=True)
    assert resumed.sha256 == straight.sha256
    assert [event["round"] for event in trial.events("round")] == [1, 2, 3]
    with pytest.raises(RunError, match="deploy run"):
        resume(tmp_path / "b" / "trial")
    other = tiny(rounds=3, method="elr", seed=1)
    with pytest.raises(RunError, match="not the one"):
        Trial(tmp_path / "b", other, site_names(3)).play(is_resumed=True)


def test_nodes_that_cannot_take_part_are_turned_away(tmp_path):
    """Two that are fine play the round; the others are told why not, without a path of theirs."""
    odd = [
        ({"site": "site-01"}, "registered as"),
        ({"site": "../etc"}, "string should match pattern"),
        ({"data-dir": "/nowhere/secret"}, "see the site's log"),
        ({"allow-synthetic": False}, "see the site's log"),
        ({}, "not a site of this consortium"),
    ]
    names = site_names(7)
    trial = Trial(tmp_path, tiny(1, sites=7, engine={"min_sites": 2}), names)
    for name, (config, _) in zip(names[2:], odd, strict=True):
        trial.grid.node_config[name] |= config
    trial.play(patience=0.0, sites=tuple(names[:-1]))
    event = trial.events("round")[0]
    assert event["asked"] == 2
    for name, (_, reason) in zip(names[2:], odd, strict=True):
        assert reason in event["refused"][name]
    assert "/nowhere" not in json.dumps(event)


def test_too_few_sites_at_the_start(tmp_path):
    trial = trial_of(tmp_path, min_sites="all", deadline=0.3)
    trial.grid.online.discard(LOST)
    with pytest.raises(RunError, match=r"2 sites came .*at least 3 must; missing: site-02"):
        trial.play()
    assert not (tmp_path / "trial").exists()
