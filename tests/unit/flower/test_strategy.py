"""FedA3I as a Flower strategy: FedAvg before the survey, the paper's weights after it."""

import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from consortium import flower_task
from feda3i.errors import RecipeError
from feda3i.flower.inprocess import InProcessGrid
from feda3i.flower.strategy import FedA3I, early_arrays, stage_numbers, survey_record
from feda3i.quality import SiteSurvey, group_sites, mix_by_stage, site_weights
from waiting import HANG

Q = [[0.9, 0.2], [0.6, 0.25], [0.4, 0.3], [0.2, 0.8], [0.25, 0.5]]
CASES = [4, 8, 4, 2, 6]
NODES = {f"node-{k}": {"number": k} for k in range(5)}
START = {"a.w": np.zeros((2, 3), np.float32), "b.w": np.zeros(4, np.float32)}


def make_app(asked):
    """Return a client whose parameters are its number plus the round, and whose q is known."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["number"])
        moved = {
            name: Array(message.content["arrays"][name].numpy() + number + 1) for name in START
        }
        counter = Array(np.asarray(number, np.int64))
        content = RecordDict(
            {
                "arrays": ArrayRecord({**moved, "b.counter": counter}),
                "metrics": MetricRecord({"num-examples": CASES[number]}),
            }
        )
        early = early_arrays(message)
        if early is not None:
            asked.append((number, message.content["config"]["server-round"], early["a.w"].numpy()))
            pair = np.array([Q[number]])
            survey = SiteSurvey(pair, pair, np.array([CASES[number]]))
            content["survey"] = survey_record(survey)
        return Message(content, reply_to=message)

    return app


def play(strategy, rounds, online=None):
    asked = []
    grid = InProcessGrid(make_app(asked), NODES, {})
    if online is not None:
        grid.online = online
    with flower_task():
        arrays = ArrayRecord({name: Array(value) for name, value in START.items()})
        result = strategy.start(grid, arrays, num_rounds=rounds, timeout=HANG)
    return {name: array.numpy() for name, array in result.arrays.items()}, asked


def test_the_warm_up_is_fedavg():
    ours, asked = play(FedA3I(t1=2, fraction_evaluate=0.0), 2)
    theirs, _ = play(FedAvg(fraction_evaluate=0.0), 2)
    for name in START:
        assert ours[name] == pytest.approx(theirs[name], rel=1e-6)
    assert asked == []


def test_after_the_survey_stages_are_weighed_as_in_the_paper():
    strategy = FedA3I(t1=1, rule="sign", fraction_evaluate=0.0)
    ours, asked = play(strategy, 2)
    size = np.array(CASES) / sum(CASES)
    mean = float(size @ np.arange(1, 6))
    # The survey was asked once, of all, with the model after the warm-up.
    assert sorted(number for number, _, _ in asked) == [0, 1, 2, 3, 4]
    assert {number for _, number, _ in asked} == {2}
    assert asked[0][2] == pytest.approx(np.full((2, 3), mean), rel=1e-6)
    quality = site_weights(Q, group_sites(Q, "sign"))
    expected = mix_by_stage(size, quality, 2)
    weights = np.array([strategy.weights[node] for node in sorted(strategy.weights)])
    assert weights == pytest.approx(expected)
    assert weights.sum(axis=0) == pytest.approx(1.0)
    for stage, name in enumerate(START):
        assert ours[name] == pytest.approx(mean + expected[:, stage] @ np.arange(1, 6), rel=1e-6)
    assert ours["b.counter"] == 4  # integer buffers take the largest value
    assert ours["b.counter"].dtype == np.int64


def test_a_node_that_comes_later_is_asked_with_the_early_model():
    online = set(NODES) - {"node-3"}
    strategy = FedA3I(t1=1, rule="sign", fraction_evaluate=0.0)
    asked = []
    grid = InProcessGrid(make_app(asked), NODES, {})
    grid.online = online
    original = strategy.aggregate_train

    def aggregate(server_round, replies):
        if server_round == 2:
            online.add("node-3")
        return original(server_round, replies)

    strategy.aggregate_train = aggregate
    with flower_task():
        arrays = ArrayRecord({name: Array(value) for name, value in START.items()})
        strategy.start(grid, arrays, num_rounds=3, timeout=HANG)
    late = [(number, when) for number, when, _ in asked if number == 3]
    assert late == [(3, 3)]
    early = {when: value for _, when, value in asked}
    assert np.array_equal(early[2], early[3])
    assert np.sum(list(strategy.weights.values()), axis=0) == pytest.approx(1.0)


def test_stages_are_found_by_name():
    assert stage_numbers(["in.a", "in.b", "mid.0.w", "out.w"]) == [0, 0, 1, 2]
    assert stage_numbers(["x", "y"], lambda names: [1, 0]) == [1, 0]
    with pytest.raises(RecipeError, match=r"'other\.w' begins with none"):
        stage_numbers(["other.w"], ["in", "out"])
    with pytest.raises(RecipeError, match="t1"):
        FedA3I(t1=0)


def test_a_survey_that_is_none_is_refused():
    from feda3i.errors import WireError
    from feda3i.flower.strategy import _read_survey

    for text in ("{", "[]", "x" * 100_000):
        with pytest.raises(WireError):
            _read_survey(RecordDict({"survey": ConfigRecord({"survey": text})}))


@pytest.mark.slow
def test_the_example_runs(monkeypatch):
    folder = Path(__file__).parents[3] / "examples" / "existing_flower_app"
    monkeypatch.syspath_prepend(str(folder))
    import run_here

    scores = {name: run_here.play(name) for name in ("fedavg", "feda3i")}
    for module in [m for m in sys.modules if m.split(".")[0] in ("run_here", "segmentation")]:
        del sys.modules[module]
    assert scores["feda3i"] > scores["fedavg"] > 0.7
