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


@pytest.fixture(params=["processes", "threads"])
def way(request):
    return request.param


def place_and_process(place):
    return place, os.getpid()


def fail_at_150(place):
    if place == 150:
        raise ValueError("case 150")


def tool():
    return [os.getpid()]


def use(job, opened):
    opened.append(job)
    return job, len(opened)


def test_results_come_in_order_from_several_workers(way):
    found = list(ordered_map(place_and_process, range(197), 3, way=way, batch=16))
    assert [place for place, _ in found] == list(range(197))
    assert ({pid for _, pid in found} == {os.getpid()}) == (way == "threads")


def test_workers_open_a_tool_once():
    with closing(Pool(use, 2, tool)) as pool:
        found = list(pool.map(range(40)))
    assert [job for job, _ in found] == list(range(40))
    assert sum(uses == 2 for _, uses in found) <= 2
    assert max(uses for _, uses in found) > 20


def test_errors_reach_the_caller(way):
    kind = RunError if way == "processes" else ValueError  # a process tells it in words
    with pytest.raises(kind, match="case 150"):
        list(ordered_map(fail_at_150, range(192), 3, way=way, batch=16))


STUCK = """
import os, sys, time
from pathlib import Path

def work(job):
    (Path(sys.argv[1]) / str(os.getpid())).touch()
    while True:
        time.sleep(1)

def main():
    from feda3i.pool import ordered_map
    list(ordered_map(work, range(8), 2))
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
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
