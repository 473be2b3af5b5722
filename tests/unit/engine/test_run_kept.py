"""A run goes on, or is scored, only as what its manifest and its log say that it is."""

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from feda3i.core.trees import pack, seal
from feda3i.engine.events import parse_event, read_events
from feda3i.engine.results import load_run
from feda3i.engine.run import resume, run
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RunError
from feda3i.files import write_file
from listeners import StopAfter

READERS = {
    "resume": ("resume", "{run}"),
    "predict": ("predict", "{run}", "{run}", "--out", "{out}"),
    "evaluate": ("evaluate", "{run}"),
    "export": ("export", "{run}", "--to", "onnx", "--out", "{out}"),
    "audit": ("audit", "{run}"),
    "report": ("report", "{run}"),
}


def contents(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def edit(file, change):
    """Change a file's text; return what it was."""
    text = file.read_text("utf-8")
    file.write_text(change(text))
    assert file.read_text("utf-8") != text
    return text


def with_keys(**changes):
    return lambda text: json.dumps({**json.loads(text), **changes})


@pytest.fixture
def refused(feda3i, tmp_path):
    """Return a function that runs a command on a folder and returns its one line of refusal."""

    def call(command, run):
        code, _, said = feda3i(*(a.format(run=run, out=tmp_path / "o") for a in READERS[command]))
        assert (code, said.count("\n")) == (1, 1)
        return said

    return call


def test_an_edited_recipe_is_named_and_nothing_changes(broken, copied, refused):
    for old, new, named in (
        ("lr = 0.005", "lr = 0.5", r"train\.lr 0\.005, now 0\.5"),
        ("rounds = 3", "rounds = 2", "rounds 3, now 2"),
        ('name = "fedavg"', 'name = "fedprox"', r"method\.name fedavg, now fedprox"),
    ):
        text = edit(broken / "recipe.toml", lambda text, pair=(old, new): text.replace(*pair))
        before = contents(broken)
        for read in (resume, load_run):
            with pytest.raises(RunError, match=rf"recipe\.toml' is not the recipe .*{named}"):
                read(broken)
        assert contents(broken) == before
        (broken / "recipe.toml").write_text(text)
    edit(copied / "recipe.toml", lambda text: text.replace("rounds = 2", "rounds = 1"))
    before = contents(copied)
    assert all("rounds 2, now 1" in refused(command, copied) for command in ("resume", "evaluate"))
    assert contents(copied) == before


def test_a_flipped_bit_in_the_model_is_noticed_and_mended(copied, feda3i, tmp_path):
    sha = resume(copied).sha256
    model = copied / "model.safetensors"
    data = bytearray(model.read_bytes())
    data[-5] ^= 1
    model.write_bytes(bytes(data))
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(tmp_path / "a.png")
    for command in (("resume",), ("evaluate",), ("predict", tmp_path, "--out", tmp_path / "m")):
        code, _, err = feda3i(command[0], copied, *command[1:])
        assert code == 1
        assert "is not the model that this run made" in err
    (copied / "DONE").unlink()
    assert resume(copied).sha256 == sha


def test_other_versions_and_another_processor_are_mentioned_and_noted(broken, tmp_path):
    same = shutil.copytree(broken, tmp_path / "same")
    manifest = json.loads((broken / "manifest.json").read_text("utf-8"))
    here = manifest["processor"]
    assert here["name"]
    assert here["instructions"] in ("AVX512", "AVX2", "DEFAULT", "NO AVX", "SVE256")
    packages = {**manifest["packages"], "torch": "0.1"}
    other = {**here, "name": "Abacus 9", "instructions": "BEADS"}
    edit(broken / "manifest.json", with_keys(packages=packages, processor=other))
    listener = StopAfter(99)
    resume(broken, listener=listener)
    versions, processor = listener.notes
    assert "torch 0.1, now " in versions
    assert "Abacus 9, now " in processor
    assert "BEADS, now " in processor
    (event,) = read_events(broken / "events.jsonl", "resume")
    assert (event["changed"], event["round"]) == ([versions, processor], 2)
    listener = StopAfter(99)
    resume(same, listener=listener)
    assert listener.notes == []
    assert list(read_events(same / "events.jsonl", "resume")) == []


def test_changed_data_are_noticed(broken, federation):
    with pytest.raises(RunError, match=r"data of .* changed since .*sha256: \w+ then, \w+ now"):
        resume(broken, federation=federation)


def test_a_plug_in_that_changed_is_named(tiny_recipe, tmp_path):
    file = tmp_path / "net.py"
    text = (
        "from torch import nn\ndef make(channels, classes):\n"
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


def test_a_manifest_of_another_version_or_of_other_types_is_named(copied, refused):
    file = copied / "manifest.json"
    for command, change, version in (
        ("resume", {"feda3i": "0.1.0"}, "0.1.0"),
        ("predict", {"feda3i": "0.1.0"}, "0.1.0"),
        ("resume", {"feda3i": "9.0", "format": 99}, "9.0"),
    ):
        text = edit(file, with_keys(**change))
        assert f"was written by feda3i {version}; this is 0.2.0" in refused(command, copied)
        file.write_text(text)
    for key, value in (
        *(("data", None), ("data", {"sha256": 1}), ("packages", []), ("processor", "x")),
        ("python", None),
        *(("created", 5), ("seed", float("inf")), ("seed", 10**30), ("best", {"round": "x"})),
    ):
        text = edit(file, with_keys(**{key: value}))
        with pytest.raises(RunError, match=rf"manifest.json' is damaged: {key}"):
            RunFolder.open(copied)
        file.write_text(text)


# -- checkpoint and event log ----------------------------------------------------------------------


def test_events_after_the_checkpoint_are_cut_a_full_disk_loses_nothing_the_engine_may_change(
    tmp_path, broken, tiny_recipe, monkeypatch
):
    with (broken / "events.jsonl").open("a") as file:
        file.write('{"event": "round", "round": 2, "loss": 0.0}\n{"event": "rou')
    edit(broken / "recipe.toml", lambda text: text.replace("deadline = 3600", "deadline = 60"))

    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("feda3i.engine.run.write_file", full)
        with pytest.raises(OSError, match="No space"):
            resume(broken)
    assert resume(broken).sha256 == run(tiny_recipe(), tmp_path / "whole").sha256
    rounds = [e["round"] for e in read_events(broken / "events.jsonl", "round")]
    assert rounds == [1, 2, 3]


def test_a_finished_run_needs_no_state_and_stays_as_it_is(copied):
    shutil.rmtree(copied / "state")
    times = lambda: {f: f.stat().st_mtime_ns for f in copied.rglob("*") if f.is_file()}
    before = times()
    assert resume(copied).scores == pytest.approx(load_run(copied).scores(), nan_ok=True)
    assert times() == before


def test_a_lost_or_short_file_is_named_and_nothing_changes(broken, tmp_path):
    for number, (name, size, words) in enumerate(
        (
            ("state/checkpoint.bin", None, r"checkpoint\.bin' is gone"),
            ("state/checkpoint.bin", 5000, r"checkpoint\.bin.*truncated"),
            ("events.jsonl", None, r"has 0 bytes.*after \d+: a part is lost"),
            ("events.jsonl", 100, r"has 100 bytes.*after \d+: a part is lost"),
        )
    ):
        harmed = shutil.copytree(broken, tmp_path / str(number))
        if size is None:
            (harmed / name).unlink()
        else:
            os.truncate(harmed / name, size)
        before = contents(harmed)
        with pytest.raises(RunError, match=words):
            resume(harmed)
        assert contents(harmed) == before


def test_a_checkpoint_from_elsewhere_is_looked_at(broken):
    folder = RunFolder.open(broken)
    saved = folder.load()
    for change in (
        *({"round": "x"}, {"events": -1}, {"params": 3}, {"state": None}, {"round": None}),
        *({"best": []}, {"best": {"round": 1}}, {"best": {"round": True, "score": 1.0}}),
    ):
        write_file(folder.checkpoint, seal(pack({**saved, **change})))
        with pytest.raises(RunError, match=r"checkpoint\.bin' cannot be used"):
            resume(broken)


def test_a_damaged_log_names_itself(tmp_path):
    log = tmp_path / "events.jsonl"
    for line in (b"[" * 9000, b'{"event', b"7", b"\xff\xfe"):
        log.write_bytes(line + b'\n{"event": "later"}\n')
        with pytest.raises(RunError, match=r"events\.jsonl' (is damaged|cannot be read)"):
            list(read_events(log))


def test_an_edited_log_of_a_finished_run_is_refused_in_one_line(copied, refused):
    edit(copied / "events.jsonl", lambda text: text.replace('"dice": 0.', '"dice": 0.9'))
    for command in READERS:
        said = refused(command, copied)
        assert f"'{copied}/events.jsonl' is not the log that this run wrote" in said


def test_a_line_that_no_run_writes_is_no_event():
    row = '{"event": "score", "round": 1, "split": "test", "rows": [{"case": "a"%s}]}'
    for line in (
        *("[]", "{}", "{", '{"event": 5}', '{"event": "note", "text": 5, "is_result": true}'),
        *('{"event": "join", "sites": {"a": "b"}}', '{"event": "resume", "number": NaN}'),
        *(row % "", row % ', "class": 1, "dice": "good"'),
        *(f'{{"event": "resume", "number": {10**400}}}', "[" * 100_000),
    ):
        assert parse_event(line) is None
    assert parse_event('{"event": "later", "of": "a newer version"}') is not None
