"""The operator's page and numbers, and locking sites out, in one process."""

import re

import pytest

from consortium import Trial, site_names, tiny
from feda3i import __version__
from feda3i.engine.console import Silent
from feda3i.errors import RecipeError, RunError
from feda3i.flower.server_folder import lock_site, locked_sites, unlock_site
from feda3i.flower.watch import METRICS, PAGE, Glance, Tally, Watch, metrics_of

LINE = re.compile(r'feda3i_[a-z_]+\{run="[^"{}]+"(,site="[^"{}]+")?\} -?\d[\d.e+-]*')


def numbers_of(path):
    """Return Prometheus' text as values by name and labels; every line must be well formed."""
    found = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            assert LINE.fullmatch(line), line
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    (folder / "keys").mkdir(parents=True)
    (folder / "server.env").write_text("")
    for name in site_names(3):
        (folder / "keys" / f"{name}.pub").write_text("")
    return folder


def test_page_and_numbers_of_a_run(tmp_path):
    metrics = tmp_path / "textfile"
    metrics.mkdir()
    pages = []

    class Reader(Silent):
        def round(self, event):
            pages.append((tmp_path / "trial" / PAGE).read_text())  # that of the round before

    options = {"t1": 1, "safe": False}
    recipe = tiny(rounds=3, method="feda3i", options=options, engine={"min_sites": 2})

    def tamper(name, reply):
        late = name == "site-02" and reply.content["header"]["round"] == 2
        if late and reply.content["header"]["kind"] == "fit":
            reply.content["header"]["body"] = "no JSON"
        return reply

    trial = Trial(tmp_path, recipe, site_names(3), tamper)
    trial.play(metrics=metrics, listener=Reader())
    found = numbers_of(tmp_path / "trial" / METRICS)
    assert numbers_of(metrics / "feda3i-trial.prom") == found
    assert found['feda3i_round{run="trial"}'] == 3
    assert (found['feda3i_running{run="trial"}'], found['feda3i_done{run="trial"}']) == (0, 1)
    missed = [found[f'feda3i_site_missed_total{{run="trial",site="{s}"}}'] for s in site_names(3)]
    assert missed == [0, 1, 0]
    sent = sum(sum(event["bytes_sent"].values()) for event in trial.events("round"))
    label = 'feda3i_site_sent_bytes_total{run="trial",site="%s"}'
    assert sum(found[label % site] for site in site_names(3)) == sent
    assert 'http-equiv="refresh"' in pages[0]
    assert "0 of 3" in pages[0]
    last = (tmp_path / "trial" / PAGE).read_text()
    assert 'http-equiv="refresh"' not in last
    for text in ("3 of 3", "site-02", "not JSON", "Who draws how", ">done<"):
        assert text in last, text
    assert "<img" not in last


def test_the_last_page_says_why_a_run_stopped(tmp_path, server):
    class Locking(Silent):
        def round(self, event):
            lock_site(server, "site-02")

    trial = Trial(tmp_path, tiny(rounds=3), site_names(3))
    with pytest.raises(RunError, match="site-02: locked out by the operator"):
        trial.play(server=server, listener=Locking())
    text = (tmp_path / "trial" / PAGE).read_text()
    assert ">stopped<" in text
    assert "at least 3 must" in text
    unlock_site(server, "site-02")
    trial.play(server=server, is_resumed=True)
    assert [event["answered"] for event in trial.events("round")] == [3, 3, 3]


def test_a_locked_site_is_left_out_and_comes_back(tmp_path, server):
    class Operator(Silent):
        def round(self, event):
            {1: lock_site, 2: unlock_site}.get(event["round"], lambda *_: None)(server, "site-02")

    recipe = tiny(rounds=3, engine={"min_sites": 2})
    trial = Trial(tmp_path, recipe, site_names(3))
    trial.play(server=server, listener=Operator())
    first, second, third = trial.events("round")
    assert (first["missing"], third["missing"]) == ({}, {})
    assert second["missing"] == {"site-02": "locked out by the operator"}
    assert second["locked"] == ["site-02"]


def test_a_run_does_not_wait_for_a_site_that_is_locked_out(tmp_path, server):
    lock_site(server, "site-02")
    trial = Trial(tmp_path, tiny(rounds=1), site_names(3))  # min_sites=all, patience below
    trial.play(server=server, patience=1e9)
    assert trial.events("round")[0]["answered"] == 2


def test_locks_are_files_by_the_name_of_a_known_site(server):
    assert locked_sites(None) == locked_sites(server) == set()
    assert lock_site(server, "site-01")
    assert not lock_site(server, "site-01")
    assert locked_sites(server) == {"site-01"}
    assert unlock_site(server, "site-01")
    assert not unlock_site(server, "site-01")
    for wrong in ("../keys", "nobody"):
        with pytest.raises(RecipeError, match="not a site of this consortium"):
            lock_site(server, wrong)
    with pytest.raises(RecipeError, match="not a server's folder"):
        lock_site(server / "keys", "site-01")


def test_a_page_that_fails_stops_nothing(tmp_path):
    class Hearing(Silent):
        def __init__(self):
            self.notes = []

        def note(self, text):
            self.notes.append(text)

    def page(glance, has_round):
        raise ValueError("no page")

    from feda3i.flower.roster import Roster

    listener = Hearing()
    watch = Watch(listener, tmp_path, Roster(None), page)
    watch.begin("title", 3, 0)
    watch.finish()
    assert listener.notes == ["the operator's page cannot be written: ValueError('no page')"]


def test_numbers_before_the_first_round(tmp_path):
    text = metrics_of(Glance("first", tmp_path, Tally(), planned=7))
    assert 'feda3i_rounds_planned{run="first"} 7' in text
    assert 'feda3i_round{run="first"} 0' in text


def test_another_version_is_told(tmp_path, monkeypatch):
    def tamper(name, reply):
        if name == "site-02" and reply.content["header"]["kind"] == "hello":
            header = reply.content["header"]
            header["body"] = header["body"].replace(f'"{__version__}"', '"0.0.9"')
        return reply

    class Hearing(Silent):
        heard = ""

        def note(self, text):
            self.heard += text

    listener = Hearing()
    trial = Trial(tmp_path, tiny(rounds=1), site_names(3), tamper)
    trial.play(listener=listener)
    assert trial.events("round")[0]["versions"] == {"site-02": "0.0.9"}
    assert f"site-02 runs feda3i 0.0.9, this server {__version__}" in listener.heard
    assert "site-02 runs feda3i 0.0.9" in (tmp_path / "trial" / PAGE).read_text()
