"""The warm process: commands are carried out in forks of it, through the guard, or not at all."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from feda3i.flower import guard, knock, supernode, warm
from waiting import wait_until

FAKE = """
import os, sys
from pathlib import Path
from feda3i.flower import guard, warm

def fake():
    role, command, *rest = sys.argv[1:]
    print("out", command, *rest)
    print("err", os.getpid() == int(os.environ["FEDA3I_PARENT"]), file=sys.stderr)
    if command == "raise":
        raise ValueError("on purpose")
    if command == "hang":
        Path(rest[0]).write_text(str(os.getpid()))
        import time
        time.sleep(3600)
    sys.exit(int(rest[0]) if rest else None)

os.environ["FEDA3I_PARENT"] = str(os.getpid())
if sys.argv[2] == "fake":
    guard.main = fake
warm.preload = lambda role: None
warm.main()
"""


@pytest.fixture
def door(tmp_path):
    return tmp_path / ("long" * 30) / "door"


@pytest.fixture
def parent(door, request):
    """Start a warm process that has loaded nothing; end it afterwards."""
    door.parent.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", FAKE, "site", getattr(request, "param", "fake")],
        env={**os.environ, "FEDA3I_DOOR": str(door)},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(door.exists)
    yield process
    process.terminate()
    process.communicate()


def call(door, *arguments, role="site"):
    """Run knock.py as ``bin/flwr-clientapp`` does."""
    return subprocess.run(
        [sys.executable, "-I", "-S", knock.__file__, role, *arguments],
        env={**os.environ, "FEDA3I_DOOR": str(door), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_runs_in_a_fork_with_its_own_streams_and_exit_code(parent, door):
    assert oct(door.stat().st_mode)[-3:] == "600"
    done = call(door, "flwr-clientapp", "7")
    assert (done.returncode, done.stdout, done.stderr) == (
        7,
        "out flwr-clientapp 7\n",
        "err False\n",
    )
    done = call(door, "raise")
    assert done.returncode == 1
    assert "ValueError: on purpose" in done.stderr
    assert call(door, "flwr-clientapp").returncode == 0  # the parent is still there


def test_a_child_ends_with_its_caller(parent, door, tmp_path):
    number = tmp_path / "pid"
    caller = subprocess.Popen(
        [sys.executable, "-I", "-S", knock.__file__, "site", "hang", str(number)],
        env={**os.environ, "FEDA3I_DOOR": str(door)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: number.exists() and number.read_text())
    child = int(number.read_text())
    caller.kill()
    caller.wait()
    wait_until(lambda: not Path(f"/proc/{child}").exists())


@pytest.mark.parametrize("parent", ["guard"], indirect=True)
def test_the_guard_stays_in_front(parent, door):
    done = call(door, "flwr-agentapp", "--token", "x")
    assert done.returncode == 1
    assert "this site does not run 'flwr-agentapp'" in done.stderr


def test_without_a_warm_process_the_guard_starts_the_ordinary_way(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = call(tmp_path / "nobody" / "door", "flwr-agentapp")
    assert done.returncode == 1
    assert "this site does not run 'flwr-agentapp'" in done.stderr


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"role": "site"}', b'{"role": "server", "arguments": []}']
)
def test_other_requests_are_refused(data):
    assert warm.read_request(b'{"role": "site", "arguments": ["a"]}', "site") == ["a"]
    with pytest.raises(ValueError, match=r".+"):
        warm.read_request(data, "site")


def test_guard_and_knock_load_nothing_large():
    code = "import sys, feda3i.flower.guard; print({'torch', 'numpy', 'flwr'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    imported = re.findall(r"^(?:import|from) (\w+)", inspect.getsource(knock), re.M)
    assert set(imported) <= {"__future__", *sys.stdlib_module_names}


def test_commands_knock_only_where_something_may_run(tmp_path):
    for role, (wanted, *_) in guard.ROLES.items():
        guard.write_commands(tmp_path / role, role)
        knocking = [
            path.name for path in (tmp_path / role).iterdir() if "KNOCK" in path.read_text()
        ]
        assert knocking == [wanted]


def test_an_idle_node_looks_often_at_first_and_seldom_later():
    pauses = supernode.Pauses()
    waits = [pauses.pause(3) for _ in range(100)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (supernode.LEAST, 3)
    assert pauses.pause(0.5) == supernode.ANSWER  # a message came
    assert pauses.pause(3) == supernode.LEAST


def test_flower_still_sleeps_where_the_pauses_are_put():
    module = importlib.import_module("flwr.supernode.start_client_internal")
    used = re.findall(r"\btime\.(\w+\([^)]*\))", inspect.getsource(module))
    assert set(used) == {"sleep(3)", "sleep(0.5)"}
