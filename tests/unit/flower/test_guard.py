"""A site that sends noise, far too large or somewhat too large updates, or claims many cases."""

import json
from collections import Counter
from functools import cache

import numpy as np
import pytest

from attacks import forge, only, with_survey, with_values
from consortium import Trial, site_names, tiny, weights_of
from feda3i.core.wire import MAX_BUFFER, MAX_VALUE
from feda3i.engine.guarding import EXPLODED
from feda3i.engine.run import job_of, resume, run
from feda3i.errors import RecipeError, RunError
from feda3i.recipe import validate
from feda3i.simulation.federation import federation_of
from listeners import StopAfter

BAD = "site-02"
NOISE = 100.0


@cache
def job():
    recipe = tiny(sites=4)
    return job_of(recipe, federation_of(recipe))


def trained():
    return job().layout.trained()


def silent(folder, rounds, silent_in=None):
    """Return the model of a run in which the bad site never answered, or not in some rounds."""
    recipe = tiny(rounds=rounds, sites=4, engine={"min_sites": 3})
    tamper = only(BAD, "fit", lambda reply: forge(reply, cases=-1), silent_in)
    return weights_of(Trial(folder, recipe, site_names(4), tamper).play().path)


def are_same(one, other):
    return all(np.array_equal(value, other[name]) for name, value in one.items())


def sent_by_bad(change, rounds=None):
    """Return a tamper function that changes the values of the bad site's fits."""
    return only(BAD, "fit", with_values(change), rounds)


def noisy(buffers=False):
    """Return a change: noise on trained values, or on buffers."""

    def change(values):
        noise = np.random.default_rng(7).normal(0, NOISE, len(values))
        chosen = trained() != buffers
        values[chosen] += np.abs(noise[chosen]) if buffers else noise[chosen]
        return values

    return change


def at_the_limit(sign):
    """Return a change: all that is allowed. Whoever trains on it overflows, or nearly so."""

    return lambda _: np.where(trained(), sign * MAX_VALUE, 0.99 * MAX_BUFFER).astype(np.float32)


def played(folder, tamper, rounds=2, **engine):
    trial = Trial(folder, tiny(rounds=rounds, sites=4, engine=engine), site_names(4), tamper)
    path = trial.play().path
    return trial.events("round"), weights_of(path)


def test_noise_is_averaged_in_if_the_guard_is_off(tmp_path):
    rounds, model = played(tmp_path, sent_by_bad(noisy()), guard="off")
    assert max(np.abs(v).max() for v in model.values()) > NOISE / 4
    assert "guard" not in rounds[0]


ATTACKS = {
    "noise": noisy(),
    "noise in the buffers": noisy(buffers=True),
    "at the upper limit": at_the_limit(1),
    "at the lower limit": at_the_limit(-1),
}


@pytest.mark.parametrize("change", ATTACKS.values(), ids=ATTACKS.keys())
def test_over_the_network_a_far_update_costs_its_site_and_nothing_else(tmp_path, change):
    rounds, model = played(tmp_path / "a", sent_by_bad(change))
    for event in rounds:
        assert list(event["guarded"]) == list(event["missing"]) == [BAD]
        assert "times the median" in event["guarded"][BAD]
        assert event["guard"][BAD] > 10
        assert BAD not in event["site_loss"]
        assert (event["asked"], event["answered"]) == (4, 3)  # min_sites=all: all did answer
    assert are_same(model, silent(tmp_path / "b", 2))


class Exploding:
    """In round 2 a site sends what the guard lets pass; in round 3 the loss explodes at all sites.

    Asked for round 2 a second time, all are honest.
    """

    def __init__(self, factor):
        def far(values):
            before = job().initial.values  # not the values of round 1, but near enough
            moved = before + np.float32(factor) * (values - before)
            return np.where(trained(), moved, values)

        self.far, self.asked = sent_by_bad(far, rounds=[2]), Counter()

    def __call__(self, name, reply):
        header = reply.content["header"]
        if header["kind"] == "fit":
            self.asked[name, header["round"]] += 1
            if self.asked[name, 2] == 1:
                loss = {"loss": 1.01 * EXPLODED}
                return forge(reply, numbers=loss) if header["round"] == 3 else self.far(name, reply)
        return reply


def test_a_merge_after_which_the_loss_explodes_is_undone_without_who_stood_out(tmp_path):
    recipe = tiny(rounds=4, sites=4)
    trial = Trial(tmp_path / "a", recipe, site_names(4), Exploding(5.0))
    with pytest.raises(KeyboardInterrupt):
        trial.play(listener=StopAfter(3))
    trial.grid.tamper = lambda name, reply: reply
    trial.play(is_resumed=True)  # who was left out stays out
    [undone] = trial.events("undone")
    assert (undone["round"], undone["site"]) == (2, BAD)
    first, *rest = trial.events("round")
    assert first["missing"] == {}
    for number, event in enumerate(rest, start=2):
        assert event["round"] == number
        assert event["missing"] == {BAD: undone["reason"]}
        assert "the loss exploded at 4 of 4 sites" in undone["reason"]
    assert are_same(weights_of(tmp_path / "a" / "trial"), silent(tmp_path / "b", 4, (2, 3, 4)))


@pytest.mark.parametrize(("sites", "factor"), [(2, 5.0), (4, 1.0)], ids=["of two", "alike"])
def test_if_nobody_stands_out_the_run_ends_at_a_sane_checkpoint(tmp_path, sites, factor):
    names, recipe = site_names(sites), tiny(rounds=4, sites=sites)
    trial = Trial(tmp_path / "a", recipe, names, Exploding(factor))
    with pytest.raises(RunError, match="no site's update stood out"):
        trial.play()
    trial.grid.tamper = lambda name, reply: reply
    resumed = trial.play(is_resumed=True)
    assert resumed.sha256 == Trial(tmp_path / "b", recipe, names).play().sha256


def test_a_site_with_most_cases_is_capped(tmp_path):
    def more(name, reply):
        is_told = name == BAD and "cases" in json.loads(reply.content["header"]["body"])
        return forge(reply, cases=30) if is_told else reply

    for cap, share in ((0.99, 30 / 39), (0.4, 0.4)):
        rounds, _ = played(tmp_path / str(cap), more, rounds=1, max_share=cap)
        weights = rounds[0]["weights"]
        assert weights.pop(BAD) == pytest.approx(share)
        assert list(weights.values()) == pytest.approx([(1 - share) / 3] * 3)


def test_no_survey_makes_a_site_weigh_more_than_the_cap_at_any_stage(tmp_path):
    zeros = only(BAD, "survey", lambda reply: with_survey(reply, 0.0))
    about = {"sites": 5, "method": "feda3i", "options": {"t1": 1}, "engine": {"max_share": 0.25}}
    trial = Trial(tmp_path, tiny(rounds=2, **about), site_names(5), zeros)
    trial.play()
    weights = np.array(list(trial.events("round")[-1]["weights"].values()))
    assert weights.shape == (5, len(job().layout.stages))
    assert weights.max() <= 0.25 + 1e-12
    assert weights.sum(axis=0) == pytest.approx(1.0)
    assert weights[:, -1].max() == pytest.approx(0.25)  # and the cap had to act


def test_what_guards_a_run_is_part_of_it(tmp_path):
    plain = tiny(sites=4)
    assert tiny(sites=4, engine={"workers": 2, "deadline": 9}).digest() == plain.digest()
    for change in ({"guard": "leave-out"}, {"guard": "off"}, {"max_share": 0.5}):
        assert tiny(sites=4, engine=change).digest() != plain.digest()
    with pytest.raises(RecipeError, match="guard_factor"):
        validate({"engine": {"guard_factor": 1.0}})


def test_a_resume_with_another_guard_is_refused(tmp_path):
    made = run(tiny(rounds=1, sites=4, engine={"guard": "leave-out"}), tmp_path / "run")
    text = (made.path / "recipe.toml").read_text("utf-8").replace('"leave-out"', '"off"')
    (made.path / "recipe.toml").write_text(text)
    (made.path / "DONE").unlink()
    with pytest.raises(RunError, match=r"engine\.guard leave-out, now off"):
        resume(made.path)
