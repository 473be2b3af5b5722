"""Real processes of other versions, over a slow line, and two runs at once."""

import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import feda3i
from deployment import Consortium, finish, names, rounds_of, small, wait_for_nodes, wait_for_round
from feda3i.flower.deploy_demo import free_port, recipe_of
from feda3i.recipe import validate

pytestmark = pytest.mark.slow


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


class SlowLine(threading.Thread):
    """A line to the server that carries some thousand bytes a second in each direction."""

    def __init__(self, target, rate):
        super().__init__(daemon=True)
        self.port, self.target, self.rate = free_port(), target, rate
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.carried = 0

    def run(self):
        while True:
            here, _ = self.listener.accept()
            try:
                there = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the server has ended
                here.close()
                continue
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, sink):
        step = self.rate // 10
        try:
            while data := source.recv(step):
                sink.sendall(data)
                self.carried += len(data)
                time.sleep(len(data) / self.rate)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                end.close()


def test_other_versions_a_slow_line_and_two_runs_at_once(tmp_path):
    recipe = small(recipe_of(4, "fedavg", rounds=3), min_sites=3, deadline=1200)
    sites = names(4)
    older = other_version(tmp_path / "older", init=('__version__ = "', '__version__ = "0.0.9-'))
    newer = other_version(tmp_path / "newer", flower__records=("PROTOCOL = 3", "PROTOCOL = 99"))
    with Consortium(tmp_path / "c", sites, patience=60) as consortium:
        consortium.start_server()
        line = SlowLine(consortium.settings.port, rate=100_000)
        line.start()
        agreed = consortium.folder / "sites" / "site-03" / "consortium.toml"
        text = agreed.read_text("utf-8")
        agreed.write_text(text.replace(f":{consortium.settings.port}", f":{line.port}"))
        consortium.start_site("site-01", older)
        consortium.start_site("site-02")
        consortium.start_site("site-03")
        consortium.start_site("site-04", newer)
        wait_for_nodes(consortium, sites)

        first = consortium.start_run(recipe, "first")
        wait_for_round(consortium, first, "first", 1)
        other = validate({**recipe.to_dict(), "seed": 5})
        second = consortium.start_run(other, "second")
        finish(consortium, first, "first")
        finish(consortium, second, "second")
        events = {name: rounds_of(consortium, name) for name in ("first", "second")}
    for rounds in events.values():
        assert [event["answered"] for event in rounds] == [3, 3, 3]
        for event in rounds:
            assert event["versions"] == {"site-01": f"0.0.9-{feda3i.__version__}"}
            assert "protocol 99" in event["refused"]["site-04"]
            assert "install feda3i" in event["refused"]["site-04"]
            assert set(event["site_loss"]) == {"site-01", "site-02", "site-03"}
    waits = [event["answer_seconds"] for event in events["first"]]
    assert sum(w["site-03"] for w in waits) > sum(w["site-02"] for w in waits)
    assert line.carried > 6 * 3 * 4 * 1000
    hashes = {name: (tmp_path / "c/runs" / name / "DONE").read_text("utf-8") for name in events}
    assert hashes["first"] != hashes["second"]
