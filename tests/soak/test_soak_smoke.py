"""The soak itself: a few kills of each kind, and that it sees what is wrong."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import soak
from feda3i.engine.run import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills are planted through /proc")


@pytest.mark.slow
def test_a_few_kills_of_each_kind_do_no_harm():
    kinds = [word for kind in ("planted", "random", "disk", "two") for word in ("--only", kind)]
    command = [sys.executable, str(Path(soak.__file__)), "--scale", "0.02", "--seed", "1", *kinds]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    runs, kills = re.search(r"(\d+) runs, (\d+) kills, 0 failures", done.stdout).groups()
    assert (int(runs) >= 9, int(kills) >= 3) == (True, True)
    assert {"planted in resume", "two"} <= {line[:20].strip() for line in done.stdout.splitlines()}


def test_it_sees_what_is_wrong_one_after_the_other(tiny_recipe, tmp_path):
    result = run(tiny_recipe(f"rounds={soak.ROUNDS}"), tmp_path / "run")
    path, harmed = result.path, soak.Soak(tmp_path, 0, ("noise",))

    def problems():
        return soak.problems_of(path, result.sha256)

    assert problems() == []
    (path / ".part-1-DONE").touch()
    (path / "cache").mkdir()
    assert set(problems()[-1].removeprefix("left over: ").split(", ")) == {".part-1-DONE", "cache"}
    with (path / "events.jsonl").open("a") as file:
        file.write('{"event": "round", "round": 3}\n')
    assert "tells rounds" in problems()[0]
    with (path / "model.safetensors").open("ab") as file:
        file.write(b"x")
    assert "another model" in problems()[0]
    harmed.sha["noise"] = result.sha256
    harmed.end("test", "noise", path)
    (failure,) = harmed.failures
    assert "exit code 1" in failure
    (path / "DONE").unlink()
    assert problems() == ["it is not done"]
