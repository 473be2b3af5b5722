"""A run goes on, or is scored, only as what its manifest and its log say that it is."""

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from feda3i.core.trees import pack, seal
from feda3i.engine import manifest
from feda3i.engine.events import read_events
from feda3i.engine.run import resume, run
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RunError
from feda3i.files import write_file
from listeners import StopAfter


def contents(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def edit(file, old, new):
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("lr = 0.005", "lr = 0.5", r"train\.lr 0\.005, now 0\.5"),
        ("rounds = 3", "rounds = 2", "rounds 3, now 2"),
        ('name = "fedavg"', 'name = "fedprox"', r"method\.name fedavg, now fedprox"),
    ],
)
def test_an_edited_recipe_is_named(broken, done, old, new, named):
    edit(broken / "recipe.toml", old, new)
    before = contents(broken)
    with pytest.raises(RunError, match=rf"recipe\.toml' is not the recipe .*{named}"):
        resume(broken)
    assert contents(broken) == before


def test_a_finished_run_with_another_recipe_is_not_rewritten(done, feda3i):
    edit(done / "recipe.toml", "rounds = 1", "rounds = 2")
    before = contents(done)
    for command in ("resume", "evaluate"):
        code, _, err = feda3i(command, done)
        assert code == 1
        assert "rounds 1, now 2" in err
    assert contents(done) == before


@pytest.mark.slow
def test_the_engine_may_change(broken, tiny_recipe, tmp_path):
    edit(broken / "recipe.toml", "workers = 1", "workers = 2")
    assert resume(broken).sha256 == run(tiny_recipe(), tmp_path / "whole").sha256


def test_a_flipped_bit_in_the_model_is_noticed_and_mended(done, feda3i, tmp_path):
    sha = resume(done).sha256
    model = done / "model.safetensors"
    data = bytearray(model.read_bytes())
    data[-5] ^= 1
    model.write_bytes(bytes(data))
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(tmp_path / "a.png")
    for command in (("resume",), ("evaluate",), ("predict", tmp_path, "--out", tmp_path / "m")):
        code, _, err = feda3i(command[0], done, *command[1:])
        assert code == 1
        assert "is not the model that this run made" in err
    (done / "DONE").unlink()
    assert resume(done).sha256 == sha


def test_another_version_is_mentioned_and_noted(broken, monkeypatch):
    versions = {
        p: "0.1" if p == "torch" else v for p, v in manifest._versions()["packages"].items()
    }
    file = broken / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "packages": versions}))
    listener = StopAfter(99)
    resume(broken, listener=listener)
    (line,) = listener.notes
    assert "torch 0.1, now " in line
    (event,) = read_events(broken / "events.jsonl", "resume")
    assert event["changed"] == [line]
    assert event["round"] == 2


def test_another_processor_is_mentioned_in_one_line(broken, feda3i):
    file = broken / "manifest.json"
    content = json.loads(file.read_text("utf-8"))
    here = content["processor"]
    assert here["name"]
    assert here["instructions"] in ("AVX512", "AVX2", "DEFAULT", "NO AVX", "SVE256")
    assert set(here) == {"name", "instructions", "onednn_limit"}
    other = {"name": "Abacus 9", "instructions": "BEADS", "onednn_limit": here["onednn_limit"]}
    file.write_text(json.dumps({**content, "processor": other}))
    code, out, err = feda3i("resume", broken)
    assert code == 0
    assert "sha256" in out
    (line,) = [line for line in err.splitlines() if "processor" in line]
    assert "Abacus 9, now " in line
    assert "BEADS, now " in line


def test_the_same_machine_says_nothing(broken):
    listener = StopAfter(99)
    resume(broken, listener=listener)
    assert listener.notes == []
    assert list(read_events(broken / "events.jsonl", "resume")) == []


def test_a_plug_in_that_changed_is_named(tiny_recipe, tmp_path):
    file = tmp_path / "net.py"
    text = (
        "from torch import nn\n"
        "def make(channels, classes):\n"
        "    return nn.Sequential(nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, classes, 1))\n"
    )
    file.write_text(text)
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(tiny_recipe(f"model={file}:make"), path, listener=StopAfter())
    file.write_text(text.replace("ReLU", "GELU"))
    with pytest.raises(RunError, match=r"expected the file that .* was started with"):
        resume(path, trust_code=True)
    file.write_text(text)
    assert resume(path, trust_code=True).sha256


# -- the event log ---------------------------------------------------------------------------------


def test_a_finished_run_without_state_keeps_its_log(done):
    shutil.rmtree(done / "state")
    before = contents(done)
    assert resume(done).scores
    assert contents(done) == before


def test_a_lost_checkpoint_does_not_empty_the_log(broken):
    shutil.rmtree(broken / "state")
    before = contents(broken)
    with pytest.raises(RunError, match=r"checkpoint .*checkpoint\.bin' is gone"):
        resume(broken)
    assert contents(broken) == before


@pytest.mark.parametrize("left", [None, 0, 100])
def test_a_short_log_is_an_error_that_names_both_lengths(broken, left):
    log = broken / "events.jsonl"
    whole = log.stat().st_size
    if left is None:
        log.unlink()
    else:
        os.truncate(log, left)
    with pytest.raises(RunError, match=rf"has {left or 0} bytes.*after {whole}"):
        resume(broken)
    assert not log.exists() or log.stat().st_size == left


@pytest.mark.parametrize(
    "change",
    [
        *({"round": "x"}, {"events": -1}, {"params": 3}, {"state": None}, {"round": None}),
        *({"best": []}, {"best": {"round": 1}}, {"best": {"round": True, "score": 1.0}}),
    ],
)
def test_a_checkpoint_from_elsewhere_is_looked_at(broken, change):
    folder = RunFolder.open(broken)
    tree = {**folder.load(), **change}
    write_file(folder.checkpoint, seal(pack(tree)))
    with pytest.raises(RunError, match=r"checkpoint\.bin' cannot be used"):
        resume(broken)


@pytest.mark.parametrize("line", [b"[" * 9000, b'{"event', b"7", b"\xff\xfe"])
def test_a_damaged_log_names_itself(done, line, feda3i):
    log = done / "events.jsonl"
    log.write_bytes(line + b"\n" + log.read_bytes())
    code, _, err = feda3i("resume", done)
    assert code == 1
    assert "events.jsonl' " in err
    assert "bug" not in err


def test_done_means_nothing_to_do(tiny_recipe, tmp_path):
    first = run(tiny_recipe("rounds=1"), tmp_path / "run")
    before = {f: f.stat().st_mtime_ns for f in first.path.rglob("*") if f.is_file()}
    again = resume(first.path)
    assert (again.sha256, again.scores) == (first.sha256, pytest.approx(first.scores, nan_ok=True))
    assert {f: f.stat().st_mtime_ns for f in first.path.rglob("*") if f.is_file()} == before
