"""A site that sends noise or claims many cases: cap and guard."""

import json
from functools import cache

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord

from attacks import values_in
from consortium import Trial, site_names, tiny, weights_of
from feda3i.engine.run import job_of, resume, run
from feda3i.errors import RecipeError, RunError
from feda3i.flower import records
from feda3i.recipe import validate
from feda3i.simulation.federation import federation_of

BAD = "site-02"
NOISE = 100.0


def noisy(scale=NOISE, buffers=False):
    """Return a tamper function: noise of this size on one site's trained values, or buffers."""

    def tamper(name, reply):
        if name == BAD and reply.content["header"]["kind"] == "fit":
            arrays = reply.content["arrays"]
            values = values_in(arrays["values"])
            noise = np.random.default_rng(7).normal(0, scale, len(values))
            chosen = trained() != buffers
            values[chosen] += np.abs(noise[chosen]) if buffers else noise[chosen]
            changed = {"values": records.raw_array(values), "counts": arrays["counts"]}
            reply.content["arrays"] = ArrayRecord(changed)
        return reply

    return tamper


@cache
def job():
    recipe = tiny(sites=4)
    return job_of(recipe, federation_of(recipe))


def trained():
    return job().layout.trained()


def played(folder, tamper=None, method="fedavg", **engine):
    recipe = tiny(rounds=2, sites=4, method=method, engine=engine)
    trial = Trial(folder, recipe, site_names(4), tamper)
    result = trial.play()
    return trial.events("round"), result, weights_of(folder / "trial")


def test_noise_is_averaged_in_without_a_guard(tmp_path):
    rounds, _, model = played(tmp_path, noisy())
    assert rounds[-1]["loss"] > 10
    assert max(np.abs(v).max() for v in model.values()) > NOISE / 4
    assert "guard" not in rounds[0]


@pytest.mark.parametrize("buffers", [False, True], ids=["weights", "buffers"])
def test_the_guard_leaves_noise_out(tmp_path, buffers):
    rounds, _, model = played(tmp_path, noisy(buffers=buffers), guard="leave-out")
    for event in rounds:
        assert list(event["guarded"]) == list(event["missing"]) == [BAD]
        assert "times the median" in event["guarded"][BAD]
        assert event["guard"][BAD] > 3
        assert event["loss"] < 2
        assert BAD not in event["weights"]
        assert (event["asked"], event["answered"]) == (4, 3)  # min_sites=all: all did answer
    assert max(np.abs(v).max() for v in model.values()) < NOISE / 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    [{"guard": "leave-out"}, {"guard": "leave-out", "max_share": 0.3}],
    ids=str,
)
def test_both_engines_have_the_same_bits(tmp_path, engine):
    recipe = tiny(rounds=2, sites=4, engine=engine)
    _, flower, _ = played(tmp_path / "flower", **engine)
    assert run(recipe, tmp_path / "local").sha256 == flower.sha256


@pytest.mark.slow
def test_honest_sites_keep_their_bits_under_the_guard(tmp_path):
    guarded, one, _ = played(tmp_path / "a", guard="leave-out", method="fedmix")
    _, other, _ = played(tmp_path / "b", method="fedmix")
    assert "guarded" not in guarded[0]
    names = weights_of(tmp_path / "b" / "trial")
    assert all(np.array_equal(v, weights_of(one.path)[n]) for n, v in names.items())
    assert one.sha256 != other.sha256  # the file says that the run was guarded


def test_a_site_with_most_cases_is_capped(tmp_path):
    def more(name, reply):
        record = reply.content["header"]
        body = json.loads(record["body"])
        if name == BAD and "cases" in body:
            body["cases"] = 30
            reply.content["header"] = ConfigRecord({**record, "body": json.dumps(body)})
        return reply

    free, _, _ = played(tmp_path / "free", more, max_share=0.99)
    assert free[0]["weights"][BAD] == pytest.approx(30 / 39)
    capped, _, _ = played(tmp_path / "capped", more, max_share=0.4)
    weights = capped[0]["weights"]
    assert weights.pop(BAD) == pytest.approx(0.4)
    assert list(weights.values()) == pytest.approx([0.2] * 3)


def test_what_guards_a_run_is_part_of_it(tmp_path):
    plain = tiny(sites=4)
    assert tiny(sites=4, engine={"workers": 2, "deadline": 9}).digest() == plain.digest()
    for change in ({"guard": "leave-out"}, {"max_share": 0.5}):
        assert tiny(sites=4, engine=change).digest() != plain.digest()
    with pytest.raises(RecipeError, match="guard_factor"):
        validate({"engine": {"guard_factor": 1.0}})


def test_a_resume_with_another_guard_is_refused(tmp_path):
    made = run(tiny(rounds=1, sites=4, engine={"guard": "leave-out"}), tmp_path / "run")
    text = (made.path / "recipe.toml").read_text().replace('"leave-out"', '"off"')
    (made.path / "recipe.toml").write_text(text)
    (made.path / "DONE").unlink()
    with pytest.raises(RunError, match=r"engine\.guard leave-out, now off"):
        resume(made.path)
