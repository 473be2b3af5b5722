"""Secure aggregation with real processes: the bits of a local run, and a node killed in a round."""

import json

import pytest

pytest.importorskip("flwr")

from feda3i.deploy.control import Control
from feda3i.deploy.processes import Consortium, recipe_of
from feda3i.engine.run import run
from feda3i.log.events import read_events
from feda3i.recipe import validate
from waiting import HANG, wait_until

pytestmark = pytest.mark.slow
LOST = "site-02"


def names(count):
    return [f"site-{k + 1:02d}" for k in range(count)]


def secured(sites, rounds, dropouts="auto", **engine):
    values = recipe_of(sites, "feda3i", rounds).to_dict()
    values["data"].update(cases=4, test=4, size=32)
    values["model"]["width"] = 4
    values["method"]["t1"] = 1
    values["engine"].update(engine)
    values["secure"] = {"on": True, "dropouts": dropouts}
    return validate(values)


def follow(consortium, number, name):
    with Control(consortium.server) as control:
        list(control.follow(number, consortium.runs / name, pause=0.3))
    return list(read_events(consortium.runs / name / "events.jsonl", "round"))


def has_masked(consortium, round):
    """Return whether the site that will be lost has begun to train for this round's sum."""
    for path in (consortium.folder / "state" / LOST).rglob("round.json"):
        try:
            kept = json.loads(path.read_text())
        except (OSError, ValueError):
            continue  # it is being replaced
        if kept["round"] == round and "context" in kept:
            return True
    return False


def test_masked_sums_make_the_model_of_a_local_run(tmp_path):
    recipe = secured(3, 2)
    with Consortium(tmp_path / "c", names(3)) as consortium:
        consortium.start_server()
        for name in names(3):
            consortium.start_site(name)
        events = follow(consortium, consortium.start_run(recipe, "whole"), "whole")
    assert all(event["secure"] == {"sites": 3, "needed": 3, "lost": []} for event in events)
    done = (tmp_path / "c" / "runs" / "whole" / "DONE").read_text().strip()
    assert done == run(recipe, tmp_path / "local").sha256


def test_a_node_killed_in_a_round_does_not_stop_the_sum(tmp_path):
    recipe = secured(3, 1, dropouts=1, min_sites=2, deadline=HANG)
    with Consortium(tmp_path / "c", names(3)) as consortium:
        consortium.start_server()
        for name in names(3):
            consortium.start_site(name)
        number = consortium.start_run(recipe, "faulty")
        wait_until(lambda: has_masked(consortium, 1), pause=0.05)
        consortium.kill(LOST)
        [event] = follow(consortium, number, "faulty")
    assert event["answered"] == 2
    assert event["secure"] == {"sites": 3, "needed": 2, "lost": [LOST]}
    assert list(event["missing"]) == [LOST]
    assert (tmp_path / "c" / "runs" / "faulty" / "DONE").exists()
