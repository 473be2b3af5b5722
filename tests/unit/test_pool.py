import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from feda3i.errors import RunError
from feda3i.pool import Pool, ordered_map
from waiting import wait_until


def spread(way, call, jobs, tool=None):
    if way == "threads":
        return list(ordered_map(call, jobs, 3, batch=16))
    with closing(Pool(call, 3, tool)) as pool:
        return list(pool.map(jobs))


def place_and_process(place):
    return place, os.getpid()


def fail_at_150(place):
    if place == 150:
        raise ValueError("case 150")


def use(job, opened):
    opened.append(job)
    return job, len(opened)


@pytest.mark.parametrize("way", ["processes", "threads"])
def test_results_come_in_order_and_errors_reach_the_caller(way):
    found = spread(way, place_and_process, range(197))
    assert [place for place, _ in found] == list(range(197))
    assert ({pid for _, pid in found} == {os.getpid()}) == (way == "threads")
    kind = RunError if way == "processes" else ValueError  # a process tells it in words
    with pytest.raises(kind, match="case 150"):
        spread(way, fail_at_150, range(192))


def test_workers_open_a_tool_once():
    found = spread("processes", use, range(60), list)
    assert [job for job, _ in found] == list(range(60))
    assert sum(uses == 1 for _, uses in found) <= 3
    assert max(uses for _, uses in found) >= 20


STUCK = """
import os, sys, time
from pathlib import Path

def work(job):
    (Path(sys.argv[1]) / str(os.getpid())).touch()
    while True:
        time.sleep(1)

def main():
    from feda3i.pool import Pool
    list(Pool(work, 2).map(range(8)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_end_with_a_killed_parent(tmp_path):
    pids = tmp_path / "pids"
    (tmp_path / "stuck.py").write_text(STUCK)
    pids.mkdir()
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import stuck; stuck.main()"
    parent = subprocess.Popen([sys.executable, "-c", start, str(pids)])
    try:
        wait_until(lambda: len(list(pids.iterdir())) == 2)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert str(parent.pid) not in {file.name for file in pids.iterdir()}
    wait_until(lambda: not any(is_running(file.name) for file in pids.iterdir()))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
