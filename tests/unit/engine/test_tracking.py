"""Runs reach TensorBoard and MLflow as their event logs tell them; a failing sink harms no run."""

import pytest

from feda3i.engine.events import read_events
from feda3i.engine.run import resume, run
from feda3i.engine.tracking import Tracker, event_numbers, open_tracker
from feda3i.errors import RecipeError
from listeners import StopAfter


class Broken:
    """A sink that fails with the second round."""

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


def test_a_failing_sink_is_told_once_and_left_alone():
    sink, told = Broken(), []
    tracker = Tracker({"broken": sink}, told.append)
    rows = [{"case": "patient-7", "dice": 0.5}]
    tracker.take({"event": "start", "recipe": {"seed": 1, "train": {"lr": 0.1}}})
    tracker.take({"event": "score", "round": 1, "rows": rows})
    for number in (1, 2, 3):
        tracker.take({"event": "round", "round": number, "loss": 0.1})
    tracker.end(True)
    assert sink.params == {"seed": "1", "train.lr": "0.1"}
    assert sink.steps == [1, 2]
    assert len(told) == 1
    assert "the run continues: OSError: the server is gone" in told[0]


def test_an_unknown_sink_is_refused_and_a_missing_package_is_told(tmp_path, monkeypatch):
    with pytest.raises(RecipeError, match="tensorboard"):
        open_tracker(["tensorbord"], tmp_path, "t", 1, print)
    monkeypatch.setitem(__import__("sys").modules, "tensorboard", None)
    monkeypatch.delitem(__import__("sys").modules, "torch.utils.tensorboard", raising=False)
    told = []
    assert open_tracker(["tensorboard"], tmp_path, "t", 1, told.append).sinks == {}
    assert "feda3i[tracking]" in told[0]


def scalars(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(folder))
    found.Reload()
    names = found.Tags()["scalars"]
    return {name: [(one.step, one.value) for one in found.Scalars(name)] for name in names}


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
    assert (plain / "DONE").read_text("utf-8") == (path / "DONE").read_text("utf-8")


@pytest.mark.slow
def test_mlflow_keeps_its_files_beside_the_run(tmp_path, tiny_recipe, monkeypatch):
    pytest.importorskip("mlflow")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    path = tmp_path / "runs" / "run"
    wanted = tiny_recipe("engine.track=mlflow")
    with pytest.raises(KeyboardInterrupt):
        run(wanted, path, listener=StopAfter())
    resume(path)
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path}/runs/mlflow.db")
    place = client.get_experiment_by_name("feda3i").experiment_id
    (found,) = client.search_runs([place])
    rounds = list(read_events(path / "events.jsonl", "round"))
    history = client.get_metric_history(found.info.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(e["round"], e["loss"]) for e in rounds]
    assert found.data.params["method.name"] == wanted.method.name
    assert found.info.status == "FINISHED"
    assert list((tmp_path / "here").iterdir()) == []


def test_a_sink_that_cannot_be_opened_leaves_the_run_as_it_is(tmp_path, tiny_recipe, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nosuchscheme://x")
    path = tmp_path / "run"
    run(tiny_recipe("engine.track=mlflow", "rounds=1"), path)
    assert (path / "DONE").is_file()
