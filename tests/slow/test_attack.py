"""The attack script: a hostile node sends real messages to a real server with honest nodes.

Whatever it sends costs that site; the run goes on with the others, and the log says why.
"""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

import attacks
from consortium import Trial, site_names, weights_of
from deployment import Consortium, small
from waiting import wait_until

pytestmark = pytest.mark.slow
BAD = "site-02"
FITS = attacks.FORGED | attacks.UNREADABLE
ODD = (0, 1, 6)
"""Hellos of 400 digits, of 10^15 cases and of an odd shape; all others are in the fast tests."""


class Hostile:
    """A node that spoils its messages after a plan."""

    def __init__(self, consortium, folder):
        self.consortium, self.plan = consortium, folder / "plan.json"
        script = consortium.folder / "sites" / BAD / "bin" / "flwr-clientapp"
        attacker = Path(__file__).parents[1] / "attacker.py"
        text = script.read_text("utf-8").replace("-m feda3i.flower.guard", str(attacker))
        assert str(attacker) in text
        script.write_text(text.replace("exec ", f"FEDA3I_ATTACK={self.plan} exec "))

    def run(self, name, rounds, method="fedavg", restarts=0, engine=(), **attacks_of):
        """Play a run with a plan (kind of message -> names of attacks); return its rounds."""
        for used in self.plan.parent.glob(f"{self.plan.name}.*"):
            used.unlink()
        self.plan.write_text(json.dumps(attacks_of))
        recipe = small(3, method, rounds, **{"min_sites": 2, "deadline": 600, **dict(engine)})
        number = self.consortium.start_run(recipe, name)
        for count in range(1, restarts + 1):
            wait_until(lambda count=count: self.has_uploaded() >= count, pause=0.2)
            self.consortium.stop(BAD)
            self.consortium.start_site(BAD)
        found = self.consortium.finish(number, name)
        assert (self.consortium.runs / name / "DONE").exists()
        assert not self.consortium.events(name, "resume")
        return found

    def has_uploaded(self):
        return self.consortium.said(BAD).count("Sent successfully")


def is_clean(event):
    return json.dumps(event, ensure_ascii=False).isprintable()


def test_a_hostile_site_costs_itself_and_not_the_run(tmp_path):
    with Consortium(tmp_path / "c", site_names(3), patience=1800) as consortium:
        hostile = Hostile(consortium, tmp_path)
        hostile.plan.write_text("{}")
        consortium.start(site_names(3))

        # Odd hellos, each after a restart, while the server waits for the site; then every forged
        # reply, one a round; then it is honest.
        hellos = [f"hello {number}" for number in ODD]
        *faulty, good = hostile.run(
            "forged", len(FITS) + 1, restarts=len(ODD), hello=hellos, fit=list(FITS)
        )
        refusals = faulty[0]["refusals"]
        assert len(refusals) == len(ODD)
        assert all(line.startswith(f"{BAD}: its hello") for line in refusals)
        for event, (fault, (_, reason)) in zip(faulty, FITS.items(), strict=True):
            assert list(event["missing"]) == [BAD], fault
            assert reason in event["missing"][BAD], (fault, event["missing"])
            assert is_clean(event), fault
            assert math.isfinite(event["loss"])
        assert good["missing"] == {}
        assert not re.search("\x1b]0;|\u202e", consortium.said("server"))

        # Numbers within all limits that would spoil the model: the guard, which is on by default.
        *spoiled, good = hostile.run("guarded", 3, fit=["limit", "noise"])
        assert [list(event["guarded"]) for event in spoiled] == [[BAD], [BAD]]
        assert all(list(event["missing"]) == [BAD] for event in spoiled)
        assert "guarded" not in good
        assert good["loss"] < 2

        # Ten times its cases from the first hello on: nobody can count them, the cap holds.
        lies = {"hello": ["40 cases"], "fit": ["40 cases"] * 2}
        for event in hostile.run("cap", 2, engine={"max_share": 0.4}, **lies):
            assert event["missing"] == {}
            assert event["weights"][BAD] == pytest.approx(0.4)

        # A survey of 400 digits: FedA3I goes on, with weights that sum to one.
        events = hostile.run("survey", 3, "feda3i", survey=["survey"] * 9)
        assert [event["answered"] for event in events] == [3, 3, 3]
        assert any(BAD in event.get("survey_missing", {}) for event in events)

    # Nothing of the attacker was merged, so the model is that of a run in which it never answered.
    refuse = attacks.only(BAD, "fit", lambda reply: attacks.forge(reply, cases=-1), (1, 2))
    recipe = small(3, rounds=3, min_sites=2, deadline=600)
    silent = Trial(tmp_path / "silent", recipe, site_names(3), refuse).play()
    expected, found = weights_of(silent.path), weights_of(tmp_path / "c" / "runs" / "guarded")
    assert all(np.array_equal(found[name], value) for name, value in expected.items())
