"""FedA3I as a Flower strategy: FedAvg before the survey, the paper's weights after it."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
)

from consortium import flower_task
from feda3i.errors import RecipeError, WireError
from feda3i.flower.redraw import COLUMNS, Redraw, redraw_masks
from feda3i.flower.strategy import FedA3I, _read_survey, early_arrays, stage_numbers, survey_record
from feda3i.quality import SiteSurvey, group_sites, mix_by_stage, site_weights
from in_process import InProcessGrid
from waiting import HANG

EXAMPLE = Path(__file__).parents[3] / "examples" / "existing_flower_app"
Q = [[0.9, 0.2], [0.6, 0.25], [0.4, 0.3], [0.2, 0.8], [0.25, 0.5]]
CASES = [4, 8, 4, 2, 6]
NODES = {f"node-{k}": {"number": k} for k in range(5)}
START = {"a.w": np.zeros((2, 3), np.float32), "b.w": np.zeros(4, np.float32)}


def make_app(asked, mods=()):
    """Return a client whose parameters are its number plus the round, and whose q is known."""
    app = ClientApp()

    @app.train(mods=list(mods))
    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["number"])
        given, counter = message.content["arrays"], Array(np.asarray(number, np.int64))
        arrays = {name: Array(given[name].numpy() + number + 1) for name in START}
        if "b.counter" in given or not mods:
            arrays["b.counter"] = counter
        metrics = MetricRecord({"num-examples": CASES[number]})
        content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
        early = early_arrays(message)
        if early is not None:
            asked.append((number, message.content["config"]["server-round"], early["a.w"].numpy()))
            survey = SiteSurvey(np.array([Q[number]]), np.array([CASES[number]]))
            content["survey"] = survey_record(survey)
        return Message(content, reply_to=message)

    return app


def weighted(**options):
    return FedA3I(t1=1, fraction_evaluate=0.0, **options)


def run_on(grid, strategy, rounds, start=START):
    with flower_task():
        arrays = ArrayRecord({name: Array(value) for name, value in start.items()})
        result = strategy.start(grid, arrays, num_rounds=rounds, timeout=HANG)
    return {name: array.numpy() for name, array in result.arrays.items()}


def play(strategy, rounds, start=START, mods=(), online=NODES):
    """Return the arrays at the end, and which nodes were asked for a survey, when, with what."""
    asked = []
    grid = InProcessGrid(make_app(asked, mods), NODES, {})
    grid.online = online
    return run_on(grid, strategy, rounds, start), asked


def test_the_warm_up_is_fedavg():
    ours, asked = play(FedA3I(t1=2, fraction_evaluate=0.0), 2)
    theirs, _ = play(FedAvg(fraction_evaluate=0.0), 2)
    for name in START:
        assert ours[name] == pytest.approx(theirs[name], rel=1e-6)
    assert asked == []


def test_after_the_survey_stages_are_weighed_as_in_the_paper():
    strategy = weighted(max_share=1)
    ours, asked = play(strategy, 2)
    size = np.array(CASES) / sum(CASES)
    mean = float(size @ np.arange(1, 6))
    # The survey was asked once, of all, with the model after the warm-up.
    assert sorted(number for number, _, _ in asked) == [0, 1, 2, 3, 4]
    assert {number for _, number, _ in asked} == {2}
    assert asked[0][2] == pytest.approx(np.full((2, 3), mean), rel=1e-6)
    quality = site_weights(Q, group_sites(Q))
    expected = mix_by_stage(size, quality, 2)
    weights = np.array([strategy.weights[node] for node in sorted(strategy.weights)])
    assert weights == pytest.approx(expected)
    assert weights.sum(axis=0) == pytest.approx(1.0)
    for stage, name in enumerate(START):
        assert ours[name] == pytest.approx(mean + expected[:, stage] @ np.arange(1, 6), rel=1e-6)
    assert ours["b.counter"] == 4  # integer buffers take the largest value
    assert ours["b.counter"].dtype == np.int64


def test_quality_gives_no_node_more_than_the_cap():
    strategy = weighted()  # the paper's rule gives one 0.5
    play(strategy, 2)
    assert np.max(list(strategy.weights.values())) <= 0.4
    assert np.sum(list(strategy.weights.values()), axis=0) == pytest.approx(1.0)


def test_a_resumed_strategy_goes_on_where_it_was():
    whole, _ = play(weighted(), 4)
    first, second = weighted(), weighted()
    half, _ = play(first, 2)
    second.restore(first.state())
    found, asked = play(second, 2, start={name: half[name] for name in START})
    assert asked == []
    assert second.rounds == 4
    assert all(np.array_equal(found[name], value) for name, value in whole.items())


class WithAdam(FedAdam, FedA3I):
    """Another strategy in front: it takes its step towards the weighted average."""

    t1 = 1


class Doubled(FedAvg):
    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        doubled = {name: Array(np.asarray(2 * a.numpy())) for name, a in arrays.items()}
        return ArrayRecord(doubled), metrics


class Mine(Doubled, FedA3I):
    t1 = 1


WITH_COUNTER = {**START, "b.counter": np.asarray(0, np.int64)}


def test_it_composes_with_other_strategies():
    ours, _ = play(weighted(), 1)
    mine = Mine(fraction_evaluate=0.0)
    doubled, _ = play(mine, 1)
    assert np.array_equal(doubled["a.w"], 2 * ours["a.w"])
    play(mine, 2)
    assert mine.rating is not None
    adam = WithAdam(fraction_evaluate=0.0, eta=0.5)
    moved, asked = play(adam, 2, start=WITH_COUNTER)
    assert {number for number, _, _ in asked} == {0, 1, 2, 3, 4}
    assert set(map(len, adam.weights.values())) == {2}
    assert np.isfinite(moved["a.w"]).all()


def test_it_works_under_differential_privacy():
    wrapped = weighted()
    quiet = DifferentialPrivacyServerSideFixedClipping(wrapped, 0.0, 1e9, 5)
    private, _ = play(quiet, 2, start=WITH_COUNTER)
    plain, _ = play(weighted(), 2, start=WITH_COUNTER)
    assert private["a.w"] == pytest.approx(plain["a.w"])
    assert wrapped.rating is not None
    wrapped = weighted()
    clipped = DifferentialPrivacyClientSideFixedClipping(wrapped, 0.0, 0.5, 5)
    small, asked = play(clipped, 2, mods=[fixedclipping_mod])
    assert len(asked) == 5
    assert wrapped.rating is not None
    assert 0 < np.abs(small["a.w"]).max() < 1  # two rounds of updates clipped to a norm of 0.5
    local = LocalDpMod(clipping_norm=0.5, sensitivity=1e-9, epsilon=1.0, delta=0.1)
    noisy, asked = play(weighted(), 2, mods=[local])
    assert len(asked) == 5
    assert noisy["a.w"] == pytest.approx(small["a.w"], abs=1e-3)


def test_a_node_that_comes_later_is_asked_with_the_early_model():
    online, strategy = set(NODES) - {"node-3"}, weighted(max_share=1)
    original = strategy.aggregate_train

    def aggregate(server_round, replies):
        if server_round == 2:
            online.add("node-3")
        return original(server_round, replies)

    strategy.aggregate_train = aggregate
    _, asked = play(strategy, 3, online=online)
    assert [(number, when) for number, when, _ in asked if number == 3] == [(3, 3)]
    early = {when: value for _, when, value in asked}
    assert np.array_equal(early[2], early[3])
    assert np.sum(list(strategy.weights.values()), axis=0) == pytest.approx(1.0)


def test_stages_are_found_by_name():
    assert stage_numbers(["in.a", "in.b", "mid.0.w", "out.w"]) == [0, 0, 1, 2]
    with pytest.raises(RecipeError, match=r"'other\.w' begins with none"):
        stage_numbers(["other.w"], ["in", "out"])
    with pytest.raises(RecipeError, match="t1"):
        FedA3I(t1=0)


def test_a_survey_that_is_none_is_refused():
    fine = {"q": [[1, 1]], "cases": [3]}
    odd = [{"q": [[10**400, 1]]}, {"q": 7}, {"q": "x"}, {"cases": [1, 2]}, {"cases": None}]
    texts = [json.dumps({**fine, **change}) for change in odd]
    for text in ("{", "[]", "[" * 10_000, "x" * 100_000, *texts):
        with pytest.raises(WireError):
            _read_survey(RecordDict({"survey": ConfigRecord({"survey": text})}))


@pytest.mark.slow
def test_the_example_runs(monkeypatch):
    """On exact masks; its clients draw their contours too large or too small."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from segmentation.client_app import app as client
    from segmentation.server_app import app as server
    from segmentation.task import OFFSETS, SIZE, Net, dice

    draw = torch.Generator().manual_seed(99)
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    centre = 12 + 8 * torch.rand(32, 2, 1, 1, generator=draw)
    radius = 6 + 3 * torch.rand(32, 1, 1, generator=draw)
    masks = torch.hypot(y - centre[:, 0], x - centre[:, 1]) < radius
    images = masks + 0.3 * torch.randn(masks.shape, generator=draw)
    settings = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"]
    scores = {}
    for name in ("fedavg", "feda3i"):
        config = {**settings["config"], "strategy": name}
        nodes = {f"client-{k}": {"partition-id": k} for k in range(len(OFFSETS))}
        context = Context(1, 1, {}, RecordDict(), config)
        torch.manual_seed(0)
        with flower_task():
            server(InProcessGrid(client, nodes, config), context)
        model = Net()
        model.load_state_dict(context.state["final"].to_torch_state_dict())
        scores[name] = dice(model, images[:, None].float(), masks[:, None].float())
    for module in [m for m in sys.modules if m.split(".")[0] == "segmentation"]:
        del sys.modules[module]
    assert scores["feda3i"] > scores["fedavg"] > 0.7


@pytest.mark.slow
def test_the_example_is_an_app_that_flower_and_its_hub_accept(tmp_path):
    app = tmp_path / "existing-flower-app"
    shutil.copytree(EXAMPLE, app, ignore=shutil.ignore_patterns("__pycache__"))
    flwr = Path(sys.executable).parent / "flwr"
    environment = {**os.environ, "FLWR_HOME": str(tmp_path), "FLWR_TELEMETRY_ENABLED": "0"}
    done = subprocess.run(
        [str(flwr), "build"], cwd=app, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [bundle] = app.glob("*.fab")
    with zipfile.ZipFile(bundle) as archive:
        assert {"LICENSE", "segmentation/client_app.py"} <= set(archive.namelist())
    settings = tomllib.loads((app / "pyproject.toml").read_text("utf-8"))
    assert settings["tool"]["flwr"]["app"]["fab-format-version"] == 1
    assert not [d for d in settings["project"]["dependencies"] if d.startswith("feda3i")]


def disc_app(trained):
    """Return an app whose nodes draw discs larger by their offset, with Redraw's three lines."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        offset = context.node_config["offset"]
        yy, xx = np.mgrid[:64, :64] - 32
        away = np.stack([np.hypot(yy, xx + k) for k in range(8)])
        content = RecordDict({"arrays": message.content["arrays"]})
        masks, told = redraw_masks(message, 200 - 100 * (away < 14), away < 14 + offset)
        if told is not None:
            content["offsets"] = told
        trained.append((offset, masks.sum() / (away < 14).sum()))
        if early_arrays(message) is not None:
            content["survey"] = survey_record(SiteSurvey(np.array([Q[0]]), np.array([4])))
        content["metrics"] = MetricRecord({"num-examples": 8})
        return Message(content, reply_to=message)

    return app


class Both(Redraw, FedA3I):
    t1 = 1


@pytest.mark.parametrize("make", [Redraw, Both])
def test_contours_are_moved_from_the_second_round_on(make):
    offsets, trained = [4, 3, -3, -4, 0], []
    nodes = {f"node-{k}": {"offset": offset} for k, offset in enumerate(offsets)}
    grid = InProcessGrid(disc_app(trained), nodes, {})
    strategy = make(fraction_evaluate=0.0)
    run_on(grid, strategy, 2)
    first, second = dict(trained[:5]), dict(trained[5:])
    assert max(abs(area - 1) for area in first.values()) > 0.4
    assert max(abs(area - 1) for area in second.values()) < 0.15
    assert strategy.moves["100"] == pytest.approx([-16], abs=3)  # 4 px of 64 are 16 at 256


def test_an_unreadable_offset_costs_nobody_a_round(caplog):
    offsets, trained = [3, 3, -3, -3], []
    nodes = {f"node-{k}": {"offset": offset} for k, offset in enumerate(offsets)}
    odd = iter([ConfigRecord({"offset": 3.0}), ConfigRecord({key: [1e9] for key in COLUMNS})])

    def tamper(node, reply):
        if node in ("node-0", "node-2") and "offsets" in reply.content:
            reply.content["offsets"] = next(odd)
        return reply

    grid = InProcessGrid(disc_app(trained), nodes, {}, tamper)
    strategy = Redraw(fraction_evaluate=0.0)
    run_on(grid, strategy, 1)
    assert sorted(strategy.moves) == ["101", "103"]
    assert caplog.text.count("unreadable offsets") == 2
