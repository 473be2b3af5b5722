"""Forged numbers and text from one site: they cost that site, and the log says why."""

import json
import math

import numpy as np
import pytest

from attacks import FORGED, HELLOS, HUGE, UGLY, forge, only, with_survey
from consortium import Trial, site_names, tiny
from feda3i.errors import RunError, WireError
from feda3i.flower.roster import Greeting, Roster
from feda3i.flower.server_app import _job_of_sites
from feda3i.flower.transport import rows_of
from listeners import After, StopAfter

BAD = "site-02"


def is_clean(event):
    return json.dumps(event, ensure_ascii=False).isprintable()


def trial_of(folder, tamper=None, rounds=1, **recipe):
    """Return three sites, two of which are enough."""
    made = tiny(rounds=rounds, engine={"min_sites": 2, "deadline": 5.0}, **recipe)
    return Trial(folder, made, site_names(3), tamper)


def restart(trial, number):
    """Start the bad site again after a round: it says hello again."""
    trial.grid.activated[BAD] = str(number + 1)


def test_every_forged_reply_costs_one_site_one_round(tmp_path):
    spoil = dict(enumerate(FORGED.values(), start=1))

    def change(reply):
        return spoil[reply.content["header"]["round"]][0](reply)

    trial = trial_of(tmp_path, only(BAD, "fit", change, rounds=spoil), rounds=len(FORGED) + 1)
    trial.play()
    *faulty, good = trial.events("round")
    for event, (fault, (_, reason)) in zip(faulty, FORGED.items(), strict=True):
        assert list(event["missing"]) == [BAD], fault
        assert reason in event["missing"][BAD], fault
        assert is_clean(event), fault
    assert good["missing"] == {}
    assert math.isfinite(good["loss"])


def test_a_message_that_flower_cannot_read_costs_one_site(tmp_path):
    def spoil(reply):
        raise IndexError(UGLY)  # Flower's grid fails in pulling, in whatever way

    def spoil_hello(number):
        restart(trial, number)
        trial.grid.tamper = only(BAD, "hello", spoil)

    trial = trial_of(tmp_path, only(BAD, "fit", spoil), rounds=2)
    trial.play(listener=After(spoil_hello))
    first, second = trial.events("round")
    for event in (first, second):
        assert "its message cannot be read" in event["missing"][BAD]
        assert is_clean(event)
    assert any("cannot be read" in line for line in second["refusals"])


def test_an_odd_hello_costs_that_site(tmp_path):
    names = site_names(len(HELLOS) + 2)
    recipe = tiny(rounds=1, sites=len(names), engine={"min_sites": 2})
    odd = dict(zip(names, HELLOS, strict=False))

    def tamper(name, reply):
        is_odd = name in odd and reply.content["header"]["kind"] == "hello"
        return forge(reply, **odd[name]) if is_odd else reply

    trial = Trial(tmp_path, recipe, names, tamper)
    trial.play(patience=0.0)
    event = trial.events("round")[0]
    assert sorted(event["refused"]) == sorted(odd)
    assert all("its hello" in reason for reason in event["refused"].values())
    assert event["asked"] == 2


def test_the_number_of_cases_is_bound_at_the_first_hello(tmp_path):
    said = iter([3, 30, 3])
    tamper = only(BAD, "hello", lambda reply: forge(reply, cases=next(said)))
    trial = trial_of(tmp_path, tamper, rounds=4)
    listener = After(lambda number: restart(trial, number) if number < 3 else None)
    trial.play(listener=listener)
    first, second, *rest = trial.events("round")
    assert first["missing"] == {}
    assert "30 cases" in second["missing"][BAD]
    assert "had registered 3 for this run" in second["refused"][BAD]
    assert [event["missing"] for event in rest] == [{}, {}]
    assert "refused" not in rest[1]
    assert any("site-02 3 (33%)" in note for note in listener.notes)


def test_the_number_of_cases_is_bound_over_a_resume(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trial_of(tmp_path, rounds=2).play(listener=StopAfter())
    trial = trial_of(tmp_path, only(BAD, "hello", lambda r: forge(r, cases=30)), rounds=2)
    trial.play(is_resumed=True)
    assert "30 cases" in trial.events("round")[1]["missing"][BAD]


ROWS = [
    ({"dice": HUGE}, "rows.0.dice: input should be a valid number"),
    ({"dice": True}, "rows.0.dice: input should be a valid number"),
    ({"dice": -1.0}, "rows.0.dice: value error, expected a number from 0"),
    ({"class": 9}, "each of 1 classes"),
    ({"cases": HUGE}, "rows.0.cases"),
    ({"site": "x"}, "rows.0.site"),
    ({UGLY: 1.0}, r"\x1b"),
]
GOOD = {"case": BAD, "class": 1, "cases": 3, "dice": 0.5, "hd95": math.nan}


@pytest.mark.parametrize(("row", "reason"), ROWS, ids=lambda value: ascii(value)[:20])
def test_forged_scores_are_refused(row, reason):
    assert rows_of({"rows": [GOOD]}, BAD, 1)[0]["case"] == BAD
    with pytest.raises(WireError) as caught:
        rows_of({"rows": [{**GOOD, **row}]}, BAD, 1)
    assert reason in str(caught.value)


def test_forged_scores_cost_one_site(tmp_path):
    tamper = only(BAD, "score", lambda reply: forge(reply, rows=[{**GOOD, "dice": HUGE, UGLY: 1}]))
    trial = trial_of(tmp_path, tamper)
    trial.play()
    event = trial.events("round")[0]
    assert list(event["unscored"]) == [BAD]
    assert is_clean(event)
    assert math.isfinite(trial.events("score")[-1]["rows"][0]["dice"])


@pytest.mark.parametrize("value", [HUGE, math.nan, -math.inf, 1e30], ids=lambda v: str(v)[:9])
def test_forged_surveys_end_no_run(tmp_path, value):
    tamper = only(BAD, "survey", lambda reply: with_survey(reply, value))
    trial = trial_of(tmp_path, tamper, rounds=2, method="feda3i", options={"t1": 1})
    trial.play()
    last = trial.events("round")[-1]
    assert last["answered"] == 3
    assert np.all(np.isfinite(list(last["weights"].values())))


def test_a_site_with_other_cases_does_not_stop_those_who_agree(tmp_path):
    def roster(*shapes):
        made, about = Roster(None), {"layout": "", "channels": 3, "classes": 1, "version": "1"}
        for k, shape in enumerate(shapes):
            name, made.bound[f"s{k}"] = f"s{k}", 3
            made.known[name] = Greeting(node=k, site=name, cases=3, shape=list(shape), **about)
        return made

    recipe = tiny()
    found = roster((32, 32), (64, 64), (32, 32))
    assert _job_of_sites(recipe, found, 2).format.shape == (32, 32)
    assert list(found.known) == ["s0", "s2"]
    assert "(64, 64)" in found.refused()["node 1"]
    for shapes, least in (([(32, 32), (64, 64)], 1), ([(32, 32), (64, 64), (32, 32)], 3)):
        with pytest.raises(RunError, match="do not fit together"):
            _job_of_sites(recipe, roster(*shapes), least)
