"""The soak itself: a few kills of each kind, and that it sees what is wrong."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import soak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills are planted through /proc")


@pytest.mark.slow
def test_a_few_kills_of_each_kind_do_no_harm():
    command = [sys.executable, str(Path(soak.__file__)), "--smoke", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    runs, kills = re.search(r"(\d+) runs, (\d+) kills, 0 failures", done.stdout).groups()
    assert int(runs) >= 9
    assert int(kills) >= 3
    assert "planted in resume" in done.stdout
    assert "two at once" in done.stdout


def append(text):
    def change(path):
        with (path / "events.jsonl").open("a") as file:
            file.write(text)

    return change


def flip(path):
    data = bytearray((path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "model.safetensors").write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda path: (path / "DONE").unlink(), "not done"),
        (flip, "another model"),
        (append('{"event": "round", "round": 3}\n'), "tells rounds"),
        (append("\0\0\0"), "damaged"),
        (lambda path: (path / ".part-1-DONE").touch(), "left over: .part-1-DONE"),
        (lambda path: (path / "cache").mkdir(), "left over: cache"),
    ],
)
def test_it_sees_what_is_wrong(tiny_recipe, tmp_path, change, found):
    from feda3i.engine.run import run

    result = run(tiny_recipe(f"rounds={soak.ROUNDS}"), tmp_path / "run")
    assert soak.problems_of(result.path, result.sha256) == []
    change(result.path)
    (problem,) = soak.problems_of(result.path, result.sha256)
    assert found in problem


def test_a_run_that_cannot_be_brought_to_its_end_is_counted(tmp_path, capsys):
    harmed = soak.Soak(tmp_path, 0, ("noise",))
    harmed.sha["noise"] = "0" * 64
    path = tmp_path / "run"
    path.mkdir()
    (path / "mine.txt").write_text("not a run")
    harmed.end("test", "noise", path)
    (failure,) = harmed.failures
    assert "exit code 1" in failure
    assert "no run made" in failure
    shutil.rmtree(path)
