"""A forecast follows from speed and sizes; a dry run says it and leaves no trace."""

from dataclasses import replace

import pytest

from feda3i import contract
from feda3i.commands import dry_run
from feda3i.engine.forecast import Speed, forecast, measure_speed
from feda3i.engine.run import job_of
from feda3i.engine.transport import one_thread
from feda3i.methods import REGISTRY
from short import SHORT, TINY

SPEED = Speed(train=0.5, score=0.25)


def foresee(federation, method="fedavg", options=(), **changes):
    recipe = contract.Subject(method, dict(options)).recipe(**changes)
    return forecast(job_of(recipe, federation), federation, SPEED)


def test_time_follows_from_cases_epochs_rounds_and_scorings():
    federation = contract.tiny_federation(sites=3, cases=4)  # 12 to train on, 2 to test on
    engine = {"workers": 1, "device": "cpu"}
    train = {"epochs": 2, "batch": 2}
    found = foresee(federation, rounds=3, train=train, engine=engine, evaluate={"every": 2})
    # Scored after round 2 and at the end, where the training cases are scored as well.
    assert found.seconds == pytest.approx(3 * 2 * 12 * 0.5 + (2 * 2 + 12) * 0.25)
    surveyed = foresee(
        federation, "feda3i", rounds=3, train=train, engine=engine, evaluate={"every": 2}
    )
    assert surveyed.seconds == pytest.approx(found.seconds + 12 * 0.25)


def test_a_round_lasts_as_long_as_its_largest_site():
    federation = contract.tiny_federation(sites=3, cases=4)
    index = federation.sites
    uneven = replace(federation, sites={"a": index["site-1"][:1], "b": index["site-2"]})
    recipe = {"rounds": 1, "engine": {"workers": 2, "device": "cpu"}, "evaluate": {"every": 9}}
    found = foresee(uneven, **recipe)
    assert found.processes == 2
    assert found.seconds == pytest.approx(4 * 0.5 + (2 + 5) * 0.25 / 2)


def test_bytes_are_those_of_the_networks_that_travel():
    federation = contract.tiny_federation()
    job = job_of(contract.Subject("fedavg", {}).recipe(), federation)
    network = job.network()
    size = sum(v.numel() * v.element_size() for v in network.state_dict().values())
    found = foresee(federation)
    assert (found.down, found.up) == (size, size)
    assert found.server_bytes == 3 * size
    peers = foresee(federation, "feddm")
    assert (peers.down, peers.up) == (3 * size, size)  # two more networks come down
    assert found.memory >= found.case_bytes + found.server_bytes


@pytest.mark.parametrize("method", REGISTRY.names())
def test_every_method_can_be_measured_and_is_left_as_it_was(method, monkeypatch):
    monkeypatch.setattr("feda3i.engine.forecast.ENOUGH", 0.0)  # twice each: not for its precision
    federation = contract.tiny_federation(size=32)
    before = federation.train.digest()
    job = job_of(contract.Subject(method, SHORT.get(method, {})).recipe(), federation)
    with one_thread():
        speed = measure_speed(job, federation)
    assert speed.train > 0
    assert speed.score > 0
    assert federation.train.digest() == before


def test_a_dry_run_says_what_would_happen_and_does_nothing(feda3i, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = feda3i("run", "demo", *TINY, "feda3i.bic_guard=true", "--dry-run")
    assert code == 0, err
    assert "bic_guard = true" in out
    for words in (
        "cases     4 to train on, 2 to test on; 32 x 32 px, 3 channels",
        "sites     2: site-01 (2), site-02 (2)",
        "noise     SIMULATED, contour, setting skin-ne: ",
        "method    feda3i (",
        "rounds    2, 1 epoch each in batches of 2; tested after every round",
        "with 1 process, measured by one step here",
        "a site receives 27",
        "folder    runs/demo-feda3i-rounds2-",
        "NOTE      ",
        "would begin in round 11",
    ):
        assert words in out
    assert list(tmp_path.iterdir()) == []
    code, out, _ = feda3i("run", "demo", *TINY, "noise=none", "method=central", "--dry-run")
    assert "sites     1: all (4)" in out
    assert "none: masks are trained on as they are" in out
    code, _, err = feda3i("run", "demo", *TINY, "noise=none", "method=clean", "--dry-run")
    assert code == 2
    assert "only simulations have" in err


def test_too_little_memory_is_said(monkeypatch):
    federation = contract.tiny_federation()
    recipe = contract.Subject("fedavg", {}).recipe()
    found = replace(foresee(federation), process_bytes=10**9)
    monkeypatch.setattr("feda3i.basics.ram.available", lambda: 10**8)
    assert "NOT ENOUGH" in dict(dry_run.cost_rows(recipe, found))["memory"]
    monkeypatch.setattr("feda3i.basics.ram.available", lambda: 10**12)
    assert "NOT ENOUGH" not in dict(dry_run.cost_rows(recipe, found))["memory"]


def test_many_sites_are_not_all_named():
    federation = contract.tiny_federation(sites=20, cases=1)
    rows = dict(dry_run.data_rows(contract.Subject("fedavg", {}).recipe(), federation))
    assert rows["sites"].startswith("20: site-1 (1), site-10 (1), ")
    assert rows["sites"].endswith("... site-9 (1); 1 case each")
