"""A forecast follows from speed and sizes; a dry run says it and leaves no trace."""

from dataclasses import replace

import pytest

from feda3i import testing
from feda3i.commands import preview
from feda3i.engine.run import job_of
from feda3i.engine.transport import one_thread
from feda3i.methods import REGISTRY
from short import SHORT, TINY


def test_time_follows_from_cases_epochs_and_scorings(monkeypatch):
    monkeypatch.setattr(preview, "seconds_of_case", lambda *_: 0.5)
    federation = testing.tiny_federation(sites=3, cases=4)  # 12 to train on, 2 to test on
    changes = {"train": {"epochs": 2, "batch": 2}, "evaluate": {"every": 2}}

    def seconds(workers, federation=federation):
        engine = {"workers": workers, "device": "cpu"}
        recipe = testing.Subject("fedavg", {}).recipe(engine=engine, **changes)
        return preview.seconds_of_round(job_of(recipe, federation), federation)

    assert seconds(1) == pytest.approx(0.5 * (2 * 12 + 1 / 3))
    index = federation.sites  # a round lasts as long as its largest site
    uneven = replace(federation, sites={"a": index["site-1"][:1], "b": index["site-2"]})
    assert seconds(2, uneven) == pytest.approx(0.5 * (2 * 4 + 1 / 6))


@pytest.mark.parametrize("method", REGISTRY.names())
def test_every_method_can_be_measured_and_leaves_the_masks_alone(method):
    federation = testing.tiny_federation(size=32)
    before = federation.train.digest()
    job = job_of(testing.Subject(method, SHORT.get(method, {})).recipe(), federation)
    with one_thread():
        assert preview.seconds_of_case(job, preview.as_trained(federation, method)) > 0
    assert federation.train.digest() == before


def test_a_dry_run_tells_what_would_happen_and_does_nothing(feda3i, tmp_path, monkeypatch):
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
    out = feda3i("run", "demo", *TINY, "noise=none", "method=central", "--dry-run")[1]
    assert "sites     1: all (4)" in out
    assert "noise     none" in out
