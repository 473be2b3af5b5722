"""The attack script: a hostile node sends real messages to a real server with honest nodes.

Whatever it sends costs that site; the run goes on with the others, and the log says why.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

import attacks
from consortium import Trial, site_names, weights_of
from deployment import Consortium, events_of, finish, small, wait_for_nodes
from feda3i.flower.deploy_demo import recipe_of
from waiting import wait_until

pytestmark = pytest.mark.slow
BAD = "site-02"
FITS = attacks.FORGED | attacks.UNREADABLE
ODD = (0, 1, 6)
"""Hellos of 400 digits, of 10^15 cases and of an odd shape; all others are in the fast tests."""


class Hostile:
    """A node that spoils its messages after a plan."""

    def __init__(self, consortium, folder):
        self.consortium = consortium
        self.plan = folder / "plan.json"
        script = consortium.folder / "sites" / BAD / "bin" / "flwr-clientapp"
        attacker = Path(__file__).parents[1] / "attacker.py"
        text = script.read_text("utf-8").replace("-m feda3i.flower.guard", str(attacker))
        assert str(attacker) in text
        script.write_text(text.replace("exec ", f"FEDA3I_ATTACK={self.plan} exec "))
        self.will()

    def will(self, **attacks_of):
        """Make a plan: kind of message -> names of attacks, one after the other."""
        for used in self.plan.parent.glob(f"{self.plan.name}.*"):
            used.unlink()
        self.plan.write_text(json.dumps(attacks_of))

    def has_uploaded(self):
        return self.consortium.log(BAD).read_text("utf-8").count("Sent successfully")

    def restart(self):
        self.consortium.stop(BAD)
        self.consortium.start_site(BAD)


def recipe_for(rounds, method="fedavg", **engine):
    return small(recipe_of(3, method, rounds), **{"min_sites": 2, "deadline": 600, **engine})


def is_clean(event):
    return json.dumps(event, ensure_ascii=False).isprintable()


def test_a_hostile_site_costs_itself_and_not_the_run(tmp_path):
    with Consortium(tmp_path / "c", site_names(3), patience=1800) as consortium:
        consortium.start_server()
        hostile = Hostile(consortium, tmp_path)
        for name in site_names(3):
            consortium.start_site(name)
        wait_for_nodes(consortium, site_names(3))

        # Odd hellos, each after a restart, while the server waits for the site; then every forged
        # reply, one a round; then it is honest.
        hostile.will(hello=[f"hello {number}" for number in ODD], fit=list(FITS))
        run = consortium.start_run(recipe_for(len(FITS) + 1), "forged")
        for count in range(1, len(ODD) + 1):
            wait_until(lambda count=count: hostile.has_uploaded() >= count, pause=0.2)
            hostile.restart()
        *faulty, good = finish(consortium, run, "forged")
        refusals = faulty[0]["refusals"]
        assert len(refusals) == len(ODD)
        assert all(line.startswith(f"{BAD}: its hello") for line in refusals)
        for event, (fault, (_, reason)) in zip(faulty, FITS.items(), strict=True):
            assert list(event["missing"]) == [BAD], fault
            assert reason in event["missing"][BAD], (fault, event["missing"])
            assert is_clean(event), fault
            assert math.isfinite(event["loss"])
        assert good["missing"] == {}
        log = consortium.log("server").read_text("utf-8")
        assert "\x1b]0;" not in log
        assert "\u202e" not in log

        # Numbers within all limits that would spoil the model: the guard, which is on by default.
        hostile.will(fit=["limit", "noise"])
        guarded = recipe_for(3)
        run = consortium.start_run(guarded, "guarded")
        *spoiled, good = finish(consortium, run, "guarded")
        assert [list(event["guarded"]) for event in spoiled] == [[BAD], [BAD]]
        assert all(list(event["missing"]) == [BAD] for event in spoiled)
        assert "guarded" not in good
        assert good["loss"] < 2

        # Ten times its cases from the first hello on: nobody can count them, the cap holds.
        hostile.will(hello=["40 cases"], fit=["40 cases"] * 2)
        run = consortium.start_run(recipe_for(2, max_share=0.4), "cap")
        for event in finish(consortium, run, "cap"):
            assert event["missing"] == {}
            assert event["weights"][BAD] == pytest.approx(0.4)

        # A survey of 400 digits: FedA3I goes on, with weights that sum to one.
        hostile.will(survey=["survey"] * 9)
        run = consortium.start_run(recipe_for(3, "feda3i"), "survey")
        events = finish(consortium, run, "survey")
        assert [event["answered"] for event in events] == [3, 3, 3]
        assert any(BAD in event.get("survey_missing", {}) for event in events)
        for name in ("forged", "guarded", "cap", "survey"):
            assert (consortium.runs / name / "DONE").exists()
            assert not events_of(consortium, name, "resume")

    # Nothing of the attacker was merged, so the model is that of a run in which it never answered.
    refuse = attacks.only(BAD, "fit", lambda reply: attacks.forge(reply, cases=-1), (1, 2))
    silent = Trial(tmp_path / "silent", guarded, site_names(3), refuse)
    silent.play()
    expected = weights_of(tmp_path / "silent" / "trial")
    found = weights_of(tmp_path / "c" / "runs" / "guarded")
    assert all(np.array_equal(found[name], value) for name, value in expected.items())
