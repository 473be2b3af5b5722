"""A forecast follows from speed and sizes; a dry run says it and leaves no trace."""

from dataclasses import replace

import pytest

from feda3i import testing
from feda3i.commands import dry_run
from feda3i.engine.run import job_of
from feda3i.engine.transport import one_thread
from feda3i.methods import REGISTRY
from short import SHORT, TINY


def test_time_follows_from_cases_epochs_rounds_and_scorings():
    federation = testing.tiny_federation(sites=3, cases=4)  # 12 to train on, 2 to test on
    changes = {"rounds": 3, "train": {"epochs": 2, "batch": 2}, "evaluate": {"every": 2}}

    def seconds(method, workers, federation=federation):
        engine = {"workers": workers, "device": "cpu"}
        job = job_of(testing.Subject(method, {}).recipe(engine=engine, **changes), federation)
        return dry_run.seconds_of_run(job, federation, 0.5, 0.25)

    # Scored after round 2 and at the end, where the training cases are scored as well.
    assert seconds("fedavg", 1) == pytest.approx(3 * 2 * 12 * 0.5 + (2 * 2 + 12) * 0.25)
    assert seconds("feda3i", 1) == pytest.approx(seconds("fedavg", 1) + 12 * 0.25)
    index = federation.sites  # a round lasts as long as its largest site
    uneven = replace(federation, sites={"a": index["site-1"][:1], "b": index["site-2"]})
    scored = (2 * 2 + 5) * 0.25 / 2
    assert seconds("fedavg", 2, uneven) == pytest.approx(3 * 2 * 4 * 0.5 + scored)


@pytest.mark.parametrize("method", REGISTRY.names())
def test_every_method_can_be_measured_and_is_left_as_it_was(method):
    federation = testing.tiny_federation(size=32)
    before = federation.train.digest()
    job = job_of(testing.Subject(method, SHORT.get(method, {})).recipe(), federation)
    with one_thread():
        assert min(dry_run.measure_speed(job, dry_run.as_trained(federation, method))) > 0
    assert federation.train.digest() == before


def test_a_dry_run_says_what_would_happen_and_does_nothing(feda3i, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = feda3i("run", "demo", *TINY, "--dry-run")
    assert code == 0, err
    for words in (
        "cases     4 to train on, 2 to test on",
        "sites     2: site-01 (2), site-02 (2)",
        "noise     SIMULATED, contour: ",
        "method    feda3i, 2 rounds of 1 epochs",
        "on 1 cores",
        "a site receives 27",
        "folder    runs/demo-feda3i-seed0",
        "would begin in round 11",
    ):
        assert words in out
    assert list(tmp_path.iterdir()) == []
    code, out, _ = feda3i("run", "demo", *TINY, "noise=none", "method=central", "--dry-run")
    assert "sites     1: all (4)" in out
    assert "noise     none" in out
