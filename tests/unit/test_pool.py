import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from feda3i import pool as module
from feda3i.errors import RunError
from feda3i.pool import can_fork, ordered_map
from waiting import wait_until


@pytest.fixture(params=["processes", "threads"])
def way(request, monkeypatch):
    if request.param == "processes" and not hasattr(os, "fork"):
        pytest.skip("no fork here")
    monkeypatch.setattr(module, "can_fork", lambda: request.param == "processes")
    return request.param


def spread(work, count):
    return list(ordered_map(work, range(count), 3, way="fork", batch=16))


def test_results_come_in_order_from_several_workers(way):
    count = 197
    found = spread(lambda place: (place, os.getpid(), threading.get_ident()), count)
    assert [place for place, _, _ in found] == list(range(count))
    where = {pid for _, pid, _ in found}
    assert (os.getpid() in where) == (way == "threads")


def test_workers_open_a_tool_once_and_close_it(way):
    opened, closed = [], []

    @contextmanager
    def tool():
        opened.append(1)
        yield len(opened)
        closed.append(1)

    found = list(ordered_map(lambda job, it: job + it, range(40), 3, way="fork", tool=tool))
    assert found == list(range(1, 41))
    assert len(opened) == len(closed) == (way == "threads")  # in processes: not seen here


def test_errors_reach_the_caller(way):
    def work(place):
        if place == 150:
            raise ValueError("case 150")

    kind = RunError if way == "processes" else ValueError  # a process tells it in words
    with pytest.raises(kind, match="case 150"):
        spread(work, 192)


def test_forking_is_off_while_other_threads_run():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        stop.set()
        thread.join()


STUCK = """
import os, sys, time
from pathlib import Path

def work(job):
    (Path(sys.argv[1]) / str(os.getpid())).touch()
    while True:
        time.sleep(1)

def main():
    from feda3i.pool import ordered_map
    list(ordered_map(work, range(8), 2, way=sys.argv[2]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_workers_end_with_a_killed_parent(way, tmp_path):
    pids = tmp_path / "pids"
    (tmp_path / "stuck.py").write_text(STUCK)
    pids.mkdir()
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import stuck; stuck.main()"
    parent = subprocess.Popen([sys.executable, "-c", start, str(pids), way])
    try:
        wait_until(lambda: len(list(pids.iterdir())) == 2)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert str(parent.pid) not in {file.name for file in pids.iterdir()}
    wait_until(lambda: not any(is_running(file.name) for file in pids.iterdir()))


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
