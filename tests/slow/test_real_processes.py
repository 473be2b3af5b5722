"""A consortium of real processes on the loopback address, with TLS and keys, and real faults."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from consortium import site_names
from deployment import (
    Consortium,
    events_of,
    rounds_of,
    small,
    statuses,
    wait_for_event,
    wait_for_nodes,
    wait_for_round,
)
from feda3i.engine.run import run
from feda3i.flower import deploy_control as control
from feda3i.flower.deploy_demo import recipe_of
from waiting import HANG, hear_ctrl_c, wait_until

pytestmark = pytest.mark.slow


def test_both_engines_make_the_same_model(tmp_path):
    recipes = {name: small(recipe_of(3, name, n)) for name, n in (("feda3i", 3), ("fedavg", 2))}
    with Consortium(tmp_path / "c", site_names(3)) as consortium:
        consortium.start_server()
        for name in site_names(3):
            consortium.start_site(name)
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
        assert (tmp_path / "c" / "runs" / method / "DONE").read_text(
            "utf-8"
        ).strip() == local.sha256
    for path in (tmp_path / "c" / "runs").rglob("*"):
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
    recipe = small(recipe_of(4, "fedavg", rounds=12), min_sites=2, deadline=HANG)
    with Consortium(tmp_path / "c", site_names(4), patience=20) as consortium:
        consortium.start_server()
        for name in site_names(3):
            consortium.start_site(name)

        consortium.add("intruder")  # its key is not registered
        consortium.start_site("intruder")

        wait_for_nodes(consortium, site_names(3))
        first = consortium.start_run(recipe, "faults")
        wait_for_round(consortium, first, "faults", 1)
        wait_until(
            lambda: "the node ended with code" in consortium.log("intruder").read_text("utf-8")
        )
        assert len(statuses(consortium)) == 4
        consortium.stop("intruder")

        # Killed in the middle of round 2 and started again at once: it is back some time later.
        consortium.kill("site-02")
        consortium.start_site("site-02")
        wait_for_round(consortium, first, "faults", 2)

        # Stopped in round 3 and not started again; a new site comes instead.
        consortium.stop("site-03")
        consortium.start_site("site-04")
        wait_for_event(consortium, first, "faults", "join")
        joined = events_of(consortium, "faults", "join")

        # The whole server dies: SuperLink, SuperExec and the server's app.
        consortium.kill("server")
        consortium.start_server()
        second = consortium.start_run(recipe, "faults", is_resumed=True)
        assert second != first
        assert list(control.follow(consortium.server, second, consortium.runs / "faults"))

        events = rounds_of(consortium, "faults")
    assert [event["round"] for event in events] == list(range(1, 13))
    assert all(event["answered"] >= 2 for event in events)
    assert any("site-02" in event["missing"] for event in events)
    assert any("site-03" in event["missing"] for event in events[2:])
    assert "site-02" in events[-1]["site_loss"]
    assert [list(event["sites"]) for event in joined] == [["site-04"]]
    assert "site-04" in events[-1]["site_loss"]
    assert (tmp_path / "c" / "runs" / "faults" / "DONE").exists()
    assert "intruder" not in str(events)
