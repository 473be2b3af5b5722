"""Runs reach TensorBoard and MLflow as their event logs tell them; a failing sink harms no run."""

import re
import sys

import pytest

from feda3i.engine.events import read_events
from feda3i.engine.run import resume, run
from feda3i.engine.tracking import SINKS, Tracker, event_numbers
from listeners import StopAfter


class Broken:
    """A sink that fails with the second round, and has no end."""

    def __init__(self, *_):
        self.steps = []

    def begin(self, params):
        self.params = params

    def numbers(self, values, step):
        self.steps.append(step)
        if step == 2:
            raise OSError("the server is gone")


def test_numbers_of_a_round_and_no_case():
    event = {
        "event": "round",
        "round": 3,
        "loss": 0.5,
        "dice": None,
        "missing": {"C": "asleep"},
        "site_loss": {"A": 0.4, "B": float("inf")},
        "weights": {"A": [0.5, 0.25]},
        "survey": {"sites": ["A", "B"], "parts": [{"offset": [[1.5, 0.1], [None, None]]}]},
    }
    assert event_numbers(event) == {
        "loss": 0.5,
        "site_loss/A": 0.4,
        "weights/A/1": 0.5,
        "weights/A/2": 0.25,
        "offset_of_class_1/A": 1.5,
    }


def test_a_failing_sink_is_told_once_and_left_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(SINKS, "broken", Broken)
    told = []
    tracker = Tracker(["broken"], tmp_path, 1, told.append)
    sink = tracker.sinks["broken"]
    tracker.take({"event": "start", "recipe": {"seed": 1, "train": {"lr": 0.1}}})
    tracker.take({"event": "score", "round": 1, "rows": [{"case": "patient-7", "dice": 0.5}]})
    for number in (1, 2, 3):
        tracker.take({"event": "round", "round": number, "loss": 0.1})
    tracker.end(True)
    assert (sink.params, sink.steps) == ({"seed": "1", "train.lr": "0.1"}, [1, 2])
    (only,) = told
    assert "the run continues: OSError: the server is gone" in only


def test_a_sink_that_cannot_be_opened_leaves_the_run_as_it_is(tmp_path, tiny_recipe, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nosuchscheme://x")
    listener = StopAfter(99)
    run(tiny_recipe("engine.track=both", "rounds=1"), tmp_path / "run", listener=listener)
    assert (tmp_path / "run" / "DONE").is_file()
    said = r"no tracking by tensorboard.*feda3i\[tracking\].*\n.*no tracking by mlflow"
    assert re.fullmatch(f".*{said}.*", "\n".join(listener.notes))


def test_tensorboard_during_a_run_and_after_a_resume(tmp_path, tiny_recipe):
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = tmp_path / "run"

    def rounds():
        found = reading.EventAccumulator(str(path / "tensorboard"))
        found.Reload()
        return [one.step for one in found.Scalars("loss")]

    with pytest.raises(KeyboardInterrupt):
        run(tiny_recipe("engine.track=tensorboard"), path, listener=StopAfter())
    assert rounds() == [1]
    sha = resume(path).sha256
    assert rounds() == [1, 2, 3]
    assert sha == run(tiny_recipe(), tmp_path / "plain").sha256


@pytest.mark.slow
def test_mlflow_keeps_its_files_beside_the_run(tmp_path, tiny_recipe, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    path = tmp_path / "runs" / "run"
    with pytest.raises(KeyboardInterrupt):
        run(tiny_recipe("engine.track=mlflow"), path, listener=StopAfter())
    resume(path)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/runs/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name("feda3i").experiment_id])
    rounds = list(read_events(path / "events.jsonl", "round"))
    history = client.get_metric_history(found.info.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(e["round"], e["loss"]) for e in rounds]
    assert found.data.params["method.name"] == "fedavg"
    assert found.info.status == "FINISHED"
    assert list((tmp_path / "here").iterdir()) == []
