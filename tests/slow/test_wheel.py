"""The wheel in an environment of its own, outside the clone: the lines that the README shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from data_files import plain_tree

pytestmark = pytest.mark.slow
CLONE = Path(__file__).parents[2]


def test_the_wheel_runs_the_lines_of_the_readme(tmp_path):
    data, env = tmp_path / "clinics", tmp_path / "env"
    for number, site in enumerate(("Anna", "Mercy", "Zoo")):
        plain_tree(data / site, 10, 100 * number)
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def say(*command):
        done = subprocess.run(
            list(map(str, command)), cwd=tmp_path, env=inherited, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    say(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, CLONE)
    (wheel,) = tmp_path.glob("feda3i-*.whl")
    say(sys.executable, "-m", "venv", env)
    say(env / "bin" / "pip", "install", "-q", "-c", CLONE / "constraints.txt", wheel)
    feda3i = env / "bin" / "feda3i"
    assert wheel.name.split("-")[1] in say(feda3i, "--version")
    assert "30" in say(feda3i, "check", data, "--size", "64")
    short = ["rounds=2", "train.epochs=1", "data.size=32", "model.width=4"]
    say(feda3i, "run", "own", f"data={data}", *short, "--out", "runs/mine")
    assert "<html" in (tmp_path / "runs/mine/report.html").read_text("utf-8")
    say(feda3i, "predict", "runs/mine", data / "Zoo" / "images", "--out", "masks", "--overlay")
    assert len([*(tmp_path / "masks").glob("case?.png")]) == 10
    say(feda3i, "audit", data, "--out", "audit")
    say(feda3i, "redraw", data, "redrawn")
    assert len([*(tmp_path / "redrawn").rglob("masks/*.png")]) == 30
