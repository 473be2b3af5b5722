"""A bench that is killed goes on to the same results, and leaves no process behind."""

import json
import os
import signal
import subprocess
import sys

import pytest

from waiting import wait_until

GRID = """
title = "killed"
seeds = [0, 1]
rows = ["fedavg", "feda3i,weighting=intra", "feda3i", "gce"]
set = [
    "data.size=32", "data.sites=3", "data.cases=3", "data.test=4", "model.width=4",
    "train.epochs=1", "rounds=6", "feda3i.t1=2", "evaluate.every=1",
]
[settings]
"SKIN N_S" = { recipe = "skin_ns-small", data = "skin" }
"""


def start(grid, folder):
    places = ["--out", str(folder / "out"), "--results", str(folder / "res")]
    command = [sys.executable, "-m", "feda3i", "bench", str(grid), *places]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)


def results(folder):
    found = {}
    for path in (folder / "res").glob("*.json"):
        values = json.loads(path.read_text("utf-8"))
        found[path.name] = (values["hashes"], values["dice"], values["cases"], values["why"])
    return found


def members(session):
    """Return the processes of a session that are alive."""
    command = ["ps", "-o", "stat=", "-s", str(session)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [line for line in listed.split() if not line.startswith("Z")]


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_killed_bench_goes_on_to_the_same_results(tmp_path, after):
    grid = tmp_path / "killed.toml"
    grid.write_text(GRID)
    whole = start(grid, tmp_path / "whole")
    assert whole.wait() == 0
    killed = start(grid, tmp_path / "killed")
    runs = tmp_path / "killed" / "out"
    wait_until(lambda: list(runs.glob("*/events.jsonl")))
    wait_until(lambda: len(results(tmp_path / "killed")) >= after)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    wait_until(lambda: not members(killed.pid))
    assert start(grid, tmp_path / "killed").wait() == 0
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    assert len(results(tmp_path / "whole")) == 8
