"""Run folders from others: what was edited after the run is noticed wherever it is read."""

import json
import os
import shutil
import signal

import pytest

from feda3i.engine.events import parse_event
from feda3i.engine.results import load_run
from feda3i.engine.run import resume
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RunError

READERS = {
    "resume": ("resume", "{run}"),
    "predict": ("predict", "{run}", "{run}", "--out", "{out}"),
    "evaluate": ("evaluate", "{run}"),
    "export": ("export", "{run}", "--to", "onnx", "--out", "{out}"),
    "audit": ("audit", "{run}"),
    "report": ("report", "{run}"),
}


@pytest.fixture
def edited(finished, tmp_path):
    """Return a function that copies a finished run and changes one of its files."""

    def edit(name, change):
        path = tmp_path / "run"
        shutil.copytree(finished, path)
        text = (path / name).read_text("utf-8")
        (path / name).write_text(change(text))
        assert (path / name).read_text("utf-8") != text
        return path

    return edit


def better(log):
    lines = [json.loads(line) for line in log.splitlines()]
    for line in lines:
        for row in line.get("rows", ()):
            row["dice"] = 0.999
    return "".join(f"{json.dumps(line)}\n" for line in lines)


@pytest.mark.parametrize("command", READERS)
def test_an_edited_log_is_refused_in_one_line(edited, feda3i, tmp_path, command):
    path = edited("events.jsonl", better)
    code, _, said = feda3i(*(a.format(run=path, out=tmp_path / "o") for a in READERS[command]))
    assert code == 1
    assert f"'{path}/events.jsonl' is not the log that this run wrote" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("read", [load_run, resume])
def test_an_edited_recipe_is_refused(edited, read):
    path = edited("recipe.toml", lambda text: text.replace("rounds = 2", "rounds = 1"))
    with pytest.raises(RunError, match=r"is not the recipe that this run was started with.*rounds"):
        read(path)


@pytest.mark.parametrize(
    ("command", "change", "version"),
    [
        ("resume", {"feda3i": "0.1.0"}, "0.1.0"),
        ("predict", {"feda3i": "0.1.0"}, "0.1.0"),
        ("resume", {"feda3i": "9.0", "format": 99}, "9.0"),
    ],
)
def test_a_folder_of_another_version_gives_one_line(
    edited, feda3i, tmp_path, command, change, version
):
    path = edited("manifest.json", lambda text: json.dumps({**json.loads(text), **change}))
    code, _, said = feda3i(*(a.format(run=path, out=tmp_path / "o") for a in READERS[command]))
    assert code == 1
    assert f"was written by feda3i {version}; this is 0.2.0" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data", None),
        ("data", {"sha256": 1}),
        ("packages", []),
        ("processor", "x"),
        ("created", 5),
        ("seed", float("inf")),
        ("seed", 10**30),
    ],
)
def test_a_manifest_of_other_types_is_damaged(edited, key, value):
    path = edited("manifest.json", lambda text: json.dumps({**json.loads(text), key: value}))
    with pytest.raises(RunError, match=rf"manifest.json' is damaged: {key}"):
        RunFolder.open(path)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{}",
        "{",
        '{"event": 5}',
        '{"event": "note", "text": 5, "is_result": true}',
        '{"event": "join", "sites": {"a": "b"}}',
        '{"event": "score", "round": 1, "split": "test", "rows": [{"case": "a"}]}',
        '{"event": "score", "round": 1, "split": "test", "rows": [{"case": "a", "class": 1, '
        '"dice": "good"}]}',
        '{"event": "resume", "number": NaN}',
        f'{{"event": "resume", "number": {10**400}}}',
        "[" * 100_000,
    ],
)
def test_a_line_that_no_run_writes_is_no_event(line):
    assert parse_event(line) is None
    assert parse_event('{"event": "later", "of": "a newer version"}') is not None


# -- a pipe: reading it would wait for ever --------------------------------------------------------

FILES = ("manifest.json", "recipe.toml", "events.jsonl", "DONE", "model.safetensors", ".lock")


@pytest.fixture
def guarded():
    """End the test instead of waiting for a pipe if the check is lost."""

    def stop(_number, _frame):
        raise AssertionError("waits for a pipe")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("to_write", [False, True])
@pytest.mark.parametrize("name", [*FILES, "state/checkpoint.bin"])
def test_a_pipe_is_refused_and_named(finished, guarded, tmp_path, name, to_write):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(RunError, match=f"found a pipe or a device: '{folder / name}'"):
        RunFolder.open(folder, to_write=to_write)
