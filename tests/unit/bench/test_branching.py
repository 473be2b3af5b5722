import json
from dataclasses import replace

import pytest

from feda3i import recipe
from feda3i.bench.branching import Branches, begin_from, family_of, last_shared
from feda3i.engine.console import Silent
from feda3i.engine.events import read_events
from feda3i.engine.run import describe, job_of, resume, run
from feda3i.methods import REGISTRY
from feda3i.simulation.federation import federation_of
from short import SHORT

CLOCKS = ("seconds", "site_seconds")


def tiny(method, **options):
    changes = ["seed=3", "rounds=4", "data=synthetic-skin", "data.sites=3", "data.cases=3"]
    changes += ["data.test=2", "data.size=32", "model.width=4", "train.epochs=1"]
    changes += ["noise.name=contour", "noise.setting=skin-ns", "engine.workers=1"]
    values = recipe.load(None, changes).to_dict()
    values["method"] = {"name": method, **SHORT.get(method, {}), **options}
    return recipe.validate(values)


@pytest.fixture(scope="module")
def federation():
    return federation_of(tiny("fedavg"))


class Keeper(Silent):
    """Keep the checkpoints of some rounds as a bench does."""

    def __init__(self, branches, path, wanted):
        self.branches, self.path, self.wanted = branches, path, wanted

    def round(self, event):
        self.branches.keep(self.path, self.wanted)


def events_of(path):
    """Return the log without clock times."""
    return [{k: v for k, v in e.items() if k not in CLOCKS} for e in read_events(path)]


BRANCHING = {
    "feda3i": {"t1": 2, "safe": False},
    "feda3i,intra": {"t1": 2, "safe": False, "weighting": "intra"},
    "feda3i,safe": {"t1": 3},
    "fednoro": {"s1": 2, "end": 3},
    "fedavg": {},
}


@pytest.fixture(scope="module")
def kept(federation, tmp_path_factory):
    """Return the folder in which a run of FedAvg left two checkpoints."""
    folder = tmp_path_factory.mktemp("trunk")
    branches = Branches(folder / "kept", tiny("fedavg"), describe(federation))
    keeper = Keeper(branches, folder / "run", [2, 3])
    run(tiny("fedavg"), folder / "run", federation=federation, listener=keeper)
    return folder / "kept"


@pytest.mark.parametrize("name", BRANCHING)
def test_a_branch_is_equal_to_the_bit_to_a_run_from_the_beginning(name, federation, kept, tmp_path):
    options = BRANCHING[name]
    chosen = tiny(name.split(",")[0], **options)
    scratch = run(chosen, tmp_path / "scratch", federation=federation)

    saved = Branches(kept, chosen, describe(federation)).best()
    assert saved["round"] == options.get("t1", options.get("s1", 3))
    begin_from(saved, tmp_path / "branch", job_of(chosen, federation), federation)
    branch = resume(tmp_path / "branch", federation=federation)

    assert branch.sha256 == scratch.sha256
    logs = [events_of(tmp_path / name / "events.jsonl") for name in ("branch", "scratch")]
    assert logs[0] == logs[1]
    starts = [json.loads((p / "manifest.json").read_text())["start"] for p in tmp_path.iterdir()]
    assert starts[0] == starts[1]


def test_families_hold_what_shares_its_beginning_and_nothing_else():
    family = family_of(tiny("fedavg"))
    assert family == family_of(tiny("feda3i", t1=2)) == family_of(tiny("fednoro"))
    assert family == family_of(tiny("feda3i", t1=2, weighting="intra"))
    assert family != family_of(tiny("fedavg", loss="dc"))
    assert family != family_of(tiny("feda3i", t1="auto"))
    assert family != family_of(tiny("clean"))
    other = tiny("fedavg")
    assert family != family_of(other.model_copy(update={"seed": 4}))


@pytest.mark.parametrize("name", REGISTRY.names())
def test_a_run_always_plays_its_own_last_round(name):
    assert 0 <= last_shared(tiny(name)) < 4


def test_a_checkpoint_serves_no_run_on_other_cases(federation, tmp_path):
    chosen = tiny("fedavg")
    data = describe(federation)
    path = tmp_path / "run"
    branches = Branches(tmp_path / "kept", chosen, data)
    run(chosen, path, federation=federation, listener=Keeper(branches, path, [1]))
    assert branches.best()["round"] == 1
    other = describe(replace(federation, test=federation.test.take([0])))
    assert Branches(tmp_path / "kept", chosen, other).best() is None


def test_a_damaged_checkpoint_is_not_used(federation, tmp_path):
    chosen, path = tiny("fedavg"), tmp_path / "run"
    branches = Branches(tmp_path / "kept", chosen, describe(federation))
    run(chosen, path, federation=federation, listener=Keeper(branches, path, [1, 2]))
    damaged = branches.folder / "round-2.bin"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert branches.best()["round"] == 1
