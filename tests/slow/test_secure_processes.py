"""Secure aggregation with real processes: the bits of a local run, and a node killed in a round."""

import json

import pytest

pytest.importorskip("flwr")

from feda3i.deploy.control import Control
from feda3i.deploy.processes import Consortium
from feda3i.deploy.trial import recipe_of
from feda3i.engine.run import run
from feda3i.log.events import read_events
from feda3i.recipe import validate
from waiting import HANG, wait_until

pytestmark = pytest.mark.slow
NAMES = [f"site-{k + 1:02d}" for k in range(4)]
LOST = "site-02"


def secured(rounds, **engine):
    values = recipe_of(4, "feda3i", rounds).to_dict()
    values["data"].update(cases=4, test=4, size=32)
    values["model"]["width"] = 4
    values["method"]["t1"] = 1
    values["engine"].update(engine)
    values["secure"] = {"on": True}
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


def test_sums_under_masks_and_a_node_killed_in_a_round(tmp_path):
    whole, faulty = secured(2), secured(3, min_sites=3, deadline=HANG)
    with Consortium(tmp_path / "c", NAMES) as consortium:
        consortium.start_server()
        for name in NAMES:
            consortium.start_site(name)
        events = follow(consortium, consortium.start_run(whole, "whole"), "whole")
        assert all(event["secure"] == {"sites": 4, "needed": 3, "lost": []} for event in events)

        number = consortium.start_run(faulty, "faulty")
        wait_until(lambda: has_masked(consortium, 2), pause=0.05)
        consortium.kill(LOST)
        events = follow(consortium, number, "faulty")
    done = (tmp_path / "c" / "runs" / "whole" / "DONE").read_text().strip()
    assert done == run(whole, tmp_path / "local").sha256
    assert [event["answered"] for event in events] == [4, 3, 3]
    assert events[1]["secure"] == {"sites": 4, "needed": 3, "lost": [LOST]}
    assert events[2]["secure"] == {"sites": 3, "needed": 3, "lost": []}
    assert (tmp_path / "c" / "runs" / "faulty" / "DONE").exists()
