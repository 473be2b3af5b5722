"""Runs reach TensorBoard and MLflow as their event logs tell them; a failing sink harms no run."""

import json
import shutil

import pytest

from feda3i import recipe
from feda3i.engine.run import resume, run
from feda3i.errors import RecipeError
from feda3i.log.events import read_events
from feda3i.tracking import Tracker, event_numbers, open_tracker, params_of
from listeners import StopAfter
from short import TINY

SURVEYED = ("method=feda3i", "method.t1=1")


class Broken:
    """A sink that fails with the second round."""

    where = "nowhere"

    def __init__(self):
        self.steps = []

    def begin(self, params):
        self.params = params

    def numbers(self, values, step):
        self.steps.append(step)
        if step == 2:
            raise OSError("the server is gone")

    def note(self, text, step):
        pass

    def end(self, is_done):
        raise AssertionError("a sink that failed is not called again")


def test_numbers_of_a_round_and_no_case():
    rows = [{"case": "patient-7", "dice": 0.5}]
    assert event_numbers({"event": "score", "round": 1, "rows": rows}) == {}
    survey = {"sites": ["A", "B"], "parts": [{"offset": [[1.5, 0.1], [None, None]]}]}
    event = {
        "event": "round",
        "round": 3,
        "loss": 0.5,
        "dice": None,
        "missing": {"C": "asleep"},
        "site_loss": {"A": 0.4, "B": float("inf")},
        "weights": {"A": [0.5, 0.25]},
        "survey": survey,
    }
    assert event_numbers(event) == {
        "loss": 0.5,
        "site_loss/A": 0.4,
        "weights/A/1": 0.5,
        "weights/A/2": 0.25,
        "offset/A": 1.5,
    }
    assert params_of({"train": {"lr": 0.1}, "seed": 0}) == {"train.lr": "0.1", "seed": "0"}


def test_a_failing_sink_is_told_once_and_left_alone():
    sink, told = Broken(), []
    tracker = Tracker({"broken": sink}, told.append)
    tracker.take({"event": "start", "recipe": {"seed": 1}})
    for number in (1, 2, 3):
        tracker.take({"event": "round", "round": number, "loss": 0.1})
    tracker.end(True)
    assert sink.params == {"seed": "1"}
    assert sink.steps == [1, 2]
    assert len(told) == 1
    assert "the run continues: OSError: the server is gone" in told[0]


def test_an_unknown_sink_is_refused_and_a_missing_package_is_told(tmp_path, monkeypatch):
    with pytest.raises(RecipeError, match="tensorboard"):
        open_tracker(["tensorbord"], tmp_path, "t", print)
    monkeypatch.setitem(__import__("sys").modules, "tensorboard", None)
    monkeypatch.delitem(__import__("sys").modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.delitem(__import__("sys").modules, "feda3i.tracking.to_tensorboard", raising=False)
    told = []
    assert open_tracker(["tensorboard"], tmp_path, "t", told.append).sinks == {}
    assert "feda3i[tracking]" in told[0]


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory):
    path = tmp_path_factory.mktemp("tracked") / "run"
    run(recipe.load("demo", [*TINY, *SURVEYED]), path)
    return path


def scalars(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(folder))
    found.Reload()
    names = found.Tags()["scalars"]
    return {name: [(one.step, one.value) for one in found.Scalars(name)] for name in names}


def test_tensorboard_after_the_fact_says_what_the_log_says(feda3i, surveyed, tmp_path):
    pytest.importorskip("tensorboard")
    for _ in range(2):  # a second copy replaces the first
        code, out, err = feda3i("track", surveyed, "--target", tmp_path)
        assert code == 0, err
    assert f"tensorboard --logdir {tmp_path / 'run'}" in out
    found = scalars(tmp_path / "run")
    rounds = list(read_events(surveyed / "events.jsonl", "round"))
    assert found["loss"] == [(e["round"], pytest.approx(e["loss"])) for e in rounds]
    sites = rounds[0]["site_loss"]
    assert {f"site_loss/{site}" for site in sites} <= set(found)
    texts = b"".join(file.read_bytes() for file in (tmp_path / "run").iterdir())
    ids = {
        row["case"] for e in read_events(surveyed / "events.jsonl", "score") for row in e["rows"]
    }
    assert ids
    assert not any(one.encode() in texts for one in ids)


def test_tensorboard_during_a_run_and_after_a_resume(tmp_path, tiny_recipe):
    pytest.importorskip("tensorboard")
    path = tmp_path / "run"
    wanted = tiny_recipe("engine.track=tensorboard")
    with pytest.raises(KeyboardInterrupt):
        run(wanted, path, listener=StopAfter())
    assert [step for step, _ in scalars(path / "tensorboard")["loss"]] == [1]
    resume(path)
    assert [step for step, _ in scalars(path / "tensorboard")["loss"]] == [1, 2, 3]
    plain = tmp_path / "plain"
    run(tiny_recipe(), plain)
    assert (plain / "DONE").read_text() == (path / "DONE").read_text()


@pytest.mark.slow
def test_mlflow_after_the_fact(feda3i, surveyed, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    code, _, err = feda3i("track", surveyed, "--to", "mlflow", "--target", uri)
    assert code == 0, err
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    place = client.get_experiment_by_name("feda3i").experiment_id
    (found,) = client.search_runs([place])
    rounds = list(read_events(surveyed / "events.jsonl", "round"))
    history = client.get_metric_history(found.info.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(e["round"], e["loss"]) for e in rounds]
    assert found.data.params["method.name"] == "feda3i"
    assert found.info.status == "FINISHED"
    assert not (surveyed / "mlflow.txt").exists()


def test_a_sink_that_cannot_be_opened_leaves_the_run_as_it_is(tmp_path, tiny_recipe, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nosuchscheme://x")
    path = tmp_path / "run"
    run(tiny_recipe("engine.track=mlflow", "rounds=1"), path)
    assert (path / "DONE").is_file()


def test_tracking_of_nothing_is_an_error_of_ours(feda3i, tmp_path, surveyed):
    code, _, err = feda3i("track", tmp_path)
    assert code == 1
    assert "is not a run folder" in err
    broken = tmp_path / "broken"
    shutil.copytree(surveyed, broken)
    with (broken / "events.jsonl").open("a") as file:
        file.write(json.dumps({"event": "round", "round": 9})[:-4])
    pytest.importorskip("tensorboard")
    code, _, err = feda3i("track", broken, "--target", tmp_path)
    assert code == 0, err
