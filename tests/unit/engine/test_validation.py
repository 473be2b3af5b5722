"""Validation in a run: who is scored, which model is kept, when the run stops, what resumes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from feda3i.core.holdout import with_validation
from feda3i.core.messages import Params
from feda3i.engine.events import read_events
from feda3i.engine.results import load_run
from feda3i.engine.run import resume, run
from feda3i.engine.run_folder import RunFolder
from feda3i.engine.validation import BestWatch, score_of
from feda3i.errors import RunError
from feda3i.recipe.sections import ValidationSection
from feda3i.testing import Subject, outcome_of, tiny_federation

NOTHING = Params(np.zeros(1, np.float32), np.zeros(0, np.int64))


def recipe(rounds=3, method="fedavg", options=None, **more):
    validation = {"share": 0.25} | more
    return Subject(method, options or {}).recipe(rounds=rounds, validation=validation)


def row(dice, cases=1, k=1):
    return {"case": "a", "class": k, "cases": cases, "dice": dice}


def test_the_first_of_equal_rounds_stays_and_patience_counts_scorings():
    rows = [row(0.2, 1), row(0.8, 3), row(0.1, 2, 2), row(math.nan, 9, 2)]
    assert score_of(rows) == pytest.approx(((0.2 + 3 * 0.8) / 4 + 0.1) / 2)
    assert math.isnan(score_of([]))
    watch = BestWatch(ValidationSection(share=0.2, patience=2))
    said = []
    for number, dice in enumerate((0.5, 0.7, 0.7, 0.6), start=1):
        assert not watch.is_over
        said.append(watch.take(number, NOTHING, [row(dice)]))
    assert watch.is_over
    assert [s["best_round"] for s in said] == [1, 2, 2, 2]
    assert watch.notes(4, 9) == [
        "stopped early after 4 of 9 rounds: the validation Dice was best in round 2 (0.7000)"
    ]
    assert watch.notes(9, 9) == []
    assert watch.take(5, NOTHING, [row(math.nan)]) == {}
    other = BestWatch(ValidationSection(share=0.2, every=3))
    assert other.notes(4, 4) == ["no site sent a validation score, so there is no best model"]
    assert [t for t in range(1, 9) if other.is_due(t, 8)] == [3, 6, 8]
    assert not BestWatch(ValidationSection()).is_due(1, 1)


def test_a_run_keeps_its_best_model_and_the_last(tmp_path):
    result = run(recipe(), tmp_path / "run", federation=tiny_federation())
    loaded = load_run(result.path)
    events = {e["round"]: e for e in loaded.events("round")}
    scores = {number: e["validation"] for number, e in events.items()}
    assert result.best.round == max(scores, key=lambda t: (scores[t], -t))
    assert result.best.score == scores[result.best.round]
    rows = next(read_events(result.path / "events.jsonl", "score"))["rows"]
    assert [r["case"] for r in rows] == ["site-1", "site-2", "site-3"]  # means, no cases
    assert {r["cases"] for r in rows} == {1}
    assert loaded.manifest["data"]["sites"] == {f"site-{k}": 3 for k in (1, 2, 3)}
    images = tiny_federation().test.images
    best, last = (loaded.predictor(best=b).probabilities(images) for b in (True, False))
    assert np.array_equal(best, last) == (result.best.round == 3)
    with (result.path / "best.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(RunError, match="not the model that this run made"):
        load_run(result.path).predictor(best=True)
    RunFolder.open(result.path).check_model()


def test_a_run_without_validation_has_no_best_model(finished):
    assert resume(finished).best is None
    with pytest.raises(RunError, match=r"no best model.*validation\.share"):
        load_run(finished).predictor(best=True)


def test_validation_cases_are_not_trained_on():
    """Other masks on the validation cases change the scores there, and nothing else."""
    federation = with_validation(tiny_federation(), 0.25, 0)
    masks = federation.train.masks.copy()
    for index in federation.validation.values():
        masks[index] = 0
    turned = replace(federation, train=replace(federation.train, masks=masks))
    first, second = (outcome_of(recipe(2, "feda3i", {"t1": 1}), f) for f in (federation, turned))
    np.testing.assert_array_equal(first.params.values, second.params.values)

    def of(outcome):
        return [e["rows"] for e in outcome.events if e.get("split") == "validation"]

    assert of(first) != of(second)


def test_an_early_stop_ends_the_run_and_resumes_to_the_same_end():
    wanted = recipe(6, patience=1, every=1)
    wanted = wanted.model_copy(update={"train": wanted.train.model_copy(update={"lr": 1e-9})})
    whole = outcome_of(wanted, tiny_federation())
    played = [e["round"] for e in whole.events if e["event"] == "round"]
    assert len(played) < 6
    assert whole.events[-1]["event"] == "note"
    last = [e for e in whole.events if e["event"] == "score" and e["split"] == "test"][-1]
    assert last["round"] == played[-1]
    assert "hd95" in last["rows"][0]  # as after any last round
    broken = outcome_of(wanted, tiny_federation(), stop_after=1)
    assert broken.sha256 == whole.sha256
    after = outcome_of(wanted, tiny_federation(), stop_after=played[-1])  # stopped, not finished
    assert [e["round"] for e in after.events if e["event"] == "round"] == played
