"""A run from its recipe to its folder."""

import json
import socket
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

from feda3i.engine.events import read_events
from feda3i.engine.run import run
from feda3i.engine.transport import shared
from feda3i.errors import DataError, RunError
from feda3i.testing import tiny_federation
from stepping import discs_of_sizes


def test_a_run_fills_its_folder_without_a_connection(tiny_recipe, tmp_path, monkeypatch):
    def refuse(*args):
        raise AssertionError(f"a connection to {args[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    result = run(tiny_recipe(), tmp_path / "run")
    found = {file.name for file in result.path.iterdir()}
    assert {"recipe.toml", "manifest.json", "events.jsonl", "model.safetensors", "DONE"} <= found
    manifest = json.loads((result.path / "manifest.json").read_text("utf-8"))
    assert len(manifest["data"]["sha256"]) == 64
    assert manifest["packages"]["torch"]
    rounds = list(read_events(result.path / "events.jsonl", "round"))
    assert [e["round"] for e in rounds] == [1, 2, 3]
    assert set(rounds[0]["site_loss"]) == {"site-01", "site-02", "site-03"}
    assert rounds[-1]["dice"] == pytest.approx(result.scores["dice"])
    scores = list(read_events(result.path / "events.jsonl", "score"))
    assert [len(e["rows"]) for e in scores] == [4, 4, 4, 9]
    assert all(0 <= row["covered"] <= 1 for e in scores for row in e["rows"])
    workers = run(tiny_recipe("engine.workers=2"), tmp_path / "workers")
    assert workers.sha256 == result.sha256
    again = read_events(workers.path / "events.jsonl", "score")
    assert [e["rows"] for e in again] == [e["rows"] for e in scores]


@pytest.mark.parametrize("made", [discs_of_sizes(count=20), tiny_federation(size=96)])
def test_worker_processes_map_the_same_pixels(made, tmp_path):
    sent = ForkingPickler.dumps(shared(made, tmp_path))  # as concurrent.futures does
    assert len(sent) < 2**17
    got = ForkingPickler.loads(sent)
    assert got.train.digest() == made.train.digest()
    assert got.digest_of_sites() == made.digest_of_sites()
    for stack in (got.train.images, got.train.masks, got.clean_masks):
        assert not stack[0].flags.writeable  # a copy would be


def test_a_loss_that_is_not_finite_names_site_round_and_way_out(tiny_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("feda3i.losses.cross_entropy", lambda z, y: (z - z).sum() * float("inf"))
    with pytest.raises(RunError, match=r"loss became nan at site site-01 in round 1; .*train\.lr"):
        run(tiny_recipe(), tmp_path / "run")


def test_a_mask_with_undeclared_values_is_named(federation, tiny_recipe, monkeypatch, tmp_path):
    masks = federation.train.masks.copy()
    masks[1, 0, 0] = 7
    odd = federation.with_masks(masks)
    monkeypatch.setattr("feda3i.simulation.federation.load_data", lambda recipe: odd)
    with pytest.raises(DataError, match=r"'train-1': expected mask values 0\.\.1 .*found 7"):
        run(tiny_recipe(), tmp_path / "run")


def test_weights_follow_the_number_of_cases(federation, tiny_recipe, tmp_path):
    sites = {"a": np.arange(0, 2), "b": np.arange(2, 12)}
    given = replace(federation, sites=sites)
    result = run(tiny_recipe("rounds=1"), tmp_path / "r", federation=given)
    event = next(read_events(result.path / "events.jsonl", "round"))
    losses = event["site_loss"]
    assert event["loss"] == pytest.approx((2 * losses["a"] + 10 * losses["b"]) / 12)
