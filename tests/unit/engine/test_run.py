"""A run from its recipe to its folder."""

import json
import socket
import traceback
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import feda3i as package
from feda3i.core.stepper import Stepper
from feda3i.engine.events import read_events
from feda3i.engine.run import run
from feda3i.engine.transport import shared
from feda3i.errors import DataError, RunError
from feda3i.testing import tiny_federation
from short import TINY
from stepping import discs_of_sizes


def test_a_run_fills_its_folder_without_a_connection(tiny_recipe, tmp_path, monkeypatch):
    def refuse(*args):
        raise AssertionError(f"a connection to {args[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    result = run(tiny_recipe(), tmp_path / "run")
    manifest = json.loads((result.path / "manifest.json").read_text("utf-8"))
    assert len(manifest["data"]["sha256"]) == 64
    assert manifest["packages"]["torch"]
    rounds = list(read_events(result.path / "events.jsonl", "round"))
    assert ([e["round"] for e in rounds], (result.path / "DONE").exists()) == ([1, 2, 3], True)
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


def test_at_most_13_frames_lie_between_the_command_and_a_training_step(
    feda3i, monkeypatch, tmp_path
):
    ours, frames = str(Path(package.__file__).parent), []

    def take(self, loss):
        stack = traceback.extract_stack()  # with the step itself
        frames.append([f.name for f in stack if f.filename.startswith(ours) or f is stack[-1]])
        loss.backward()

    monkeypatch.setattr(Stepper, "take", take)
    assert feda3i("run", "demo", *TINY, "--out", tmp_path / "run", "--quiet")[0] == 0
    assert (frames[0][0], frames[0][-2]) == ("main", "train")
    assert len(frames[0]) <= 13, " > ".join(frames[0])
