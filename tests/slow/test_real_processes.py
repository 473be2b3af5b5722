"""A consortium of real processes on the loopback address, with TLS and keys, and real faults."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import feda3i
from consortium import site_names
from deployment import Consortium, small
from feda3i.engine.run import run
from feda3i.recipe import validate
from waiting import HANG, hear_ctrl_c, wait_until

pytestmark = pytest.mark.slow


def test_both_engines_make_the_same_model(tmp_path):
    recipes = {name: small(3, name, rounds) for name, rounds in (("feda3i", 3), ("fedavg", 2))}
    with Consortium(tmp_path / "c", site_names(3)) as consortium:
        consortium.start(site_names(3))
        for method, recipe in recipes.items():
            (tmp_path / f"{method}.toml").write_text(recipe.to_toml())
            command = ["deploy", "run", str(tmp_path / f"{method}.toml"), "--name", method]
            done = subprocess.run(
                [sys.executable, "-m", "feda3i", *command, "--server", str(consortium.server)],
                capture_output=True,
                text=True,
                timeout=HANG,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert f"round  {recipe.rounds}  sites 3/3" in done.stdout
    for method, recipe in recipes.items():
        local = run(recipe, tmp_path / f"local-{method}")
        assert (consortium.runs / method / "DONE").read_text("utf-8").strip() == local.sha256
    for path in consortium.runs.rglob("*"):
        assert not path.is_file() or b"PRIVATE KEY" not in path.read_bytes()


def test_an_interrupted_demo_leaves_no_process_behind(tmp_path):
    out = tmp_path / "demo"
    demo = subprocess.Popen(
        [sys.executable, "-m", "feda3i", "deploy", "demo", "--out", str(out), "--sites", "2"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    for line in demo.stdout:
        if "nodes started" in line:
            break
    assert processes_of(out)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(HANG) == 130
    assert processes_of(out) == []


def processes_of(folder):
    """Return all processes whose environment names a folder, as that of every node does."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes())
        except OSError:
            continue  # it has ended, or belongs to someone else
    return found


def test_a_node_and_the_server_are_killed_and_the_run_ends_all_the_same(tmp_path):
    recipe = small(4, rounds=12, min_sites=2, deadline=HANG)
    with Consortium(tmp_path / "c", site_names(4), patience=20) as consortium:
        consortium.start(site_names(3))
        consortium.add("intruder")  # its key is not registered
        consortium.start_site("intruder")
        first = consortium.start_run(recipe, "faults")
        consortium.wait_for(first, "faults", 1)
        wait_until(lambda: "the node ended with code" in consortium.said("intruder"))
        assert len(consortium.statuses()) == 4
        consortium.stop("intruder")

        # Killed in the middle of round 2 and started again at once: it is back some time later.
        consortium.kill("site-02")
        consortium.start_site("site-02")
        consortium.wait_for(first, "faults", 2)

        # Stopped in round 3 and not started again; a new site comes instead.
        consortium.stop("site-03")
        consortium.start_site("site-04")
        consortium.wait_for(first, "faults", 1, kind="join")
        joined = consortium.events("faults", "join")

        # The whole server dies: SuperLink, SuperExec and the server's app.
        consortium.restart_server()
        second = consortium.start_run(recipe, "faults", is_resumed=True)
        assert second != first
        events = consortium.finish(second, "faults")
    assert [event["round"] for event in events] == list(range(1, 13))
    assert all(event["answered"] >= 2 for event in events)
    assert any("site-02" in event["missing"] for event in events)
    assert any("site-03" in event["missing"] for event in events[2:])
    assert {"site-02", "site-04"} <= set(events[-1]["site_loss"])
    assert [list(event["sites"]) for event in joined] == [["site-04"]]
    assert (consortium.runs / "faults" / "DONE").exists()
    assert "intruder" not in str(events)


def other_version(folder, **changes):
    """Return a copy of the package in which some lines are different."""
    source = Path(feda3i.__file__).parent
    shutil.copytree(source, folder / "feda3i", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, after) in changes.items():
        path = folder / "feda3i" / name.replace("__", "/").replace("init", "__init__.py")
        path = path if path.suffix else path.with_suffix(".py")
        text = path.read_text("utf-8")
        assert before in text
        path.write_text(text.replace(before, after))
    return {"PYTHONPATH": str(folder)}


def test_other_versions_and_two_runs_at_once(tmp_path):
    recipe, sites = small(4, rounds=3, min_sites=3, deadline=1200), site_names(4)
    older = other_version(tmp_path / "older", init=('__version__ = "', '__version__ = "0.0.9-'))
    newer = other_version(tmp_path / "newer", flower__records=("PROTOCOL = 3", "PROTOCOL = 99"))
    with Consortium(tmp_path / "c", sites, patience=60) as consortium:
        consortium.start(sites, **{"site-01": older, "site-04": newer})
        first = consortium.start_run(recipe, "first")
        consortium.wait_for(first, "first", 1)
        second = consortium.start_run(validate({**recipe.to_dict(), "seed": 5}), "second")
        runs = {"first": first, "second": second}
        events = {name: consortium.finish(number, name) for name, number in runs.items()}
    for rounds in events.values():
        assert [event["answered"] for event in rounds] == [3, 3, 3]
        for event in rounds:
            assert event["versions"] == {"site-01": f"0.0.9-{feda3i.__version__}"}
            assert "protocol 99" in event["refused"]["site-04"]
            assert "install feda3i" in event["refused"]["site-04"]
            assert set(event["site_loss"]) == {"site-01", "site-02", "site-03"}
    hashes = {name: (consortium.runs / name / "DONE").read_text("utf-8") for name in events}
    assert hashes["first"] != hashes["second"]
