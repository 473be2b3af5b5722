"""Runs with a beginning in common: it is trained once, and nothing else is shared."""

import json
from dataclasses import replace

import pytest

from feda3i import recipe
from feda3i.bench.branching import family_of, last_shared, run_or_branch
from feda3i.engine.console import Silent
from feda3i.engine.events import read_events
from feda3i.engine.run import run
from feda3i.methods import REGISTRY
from feda3i.simulation.federation import federation_of
from short import SHORT

CLOCKS = ("seconds", "site_seconds")


def tiny(method, *more, **options):
    changes = ["seed=3", "rounds=4", "data=synthetic-skin", "data.sites=3", "data.cases=3"]
    changes += ["data.test=2", "data.size=32", "model.width=4", "train.epochs=1"]
    changes += ["noise.name=contour", "noise.setting=skin-ns", "engine.workers=1"]
    values = recipe.load(None, [*changes, *more]).to_dict()
    values["method"] = {"name": method, **SHORT.get(method, {}), **options}
    return recipe.validate(values)


@pytest.fixture(scope="module")
def federation():
    return federation_of(tiny("fedavg"))


@pytest.fixture(scope="module")
def kept(federation, tmp_path_factory):
    """Return the folder in which a run of FedAvg left two checkpoints."""
    folder = tmp_path_factory.mktemp("trunk")
    places = folder / "run", federation, folder / "kept"
    run_or_branch(tiny("fedavg"), *places, [2, 3], Silent())
    return folder / "kept"


def branched(chosen, path, federation, kept):
    """Return the result of a run, and the round of another that it began with."""
    result = run_or_branch(chosen, path, federation, kept, [], Silent())
    return result, json.loads((path / "manifest.json").read_text("utf-8")).get("branched", 0)


def log_of(path):
    """Return the log without clock times."""
    events = read_events(path / "events.jsonl")
    return [{k: v for k, v in e.items() if k not in CLOCKS} for e in events]


@pytest.mark.parametrize(
    ("method", "options", "begins"),
    [
        ("feda3i", {"t1": 2}, 2),
        ("feda3i", {"t1": 2, "weighting": "intra"}, 2),
        ("feda3i", {"t1": 3}, 3),
        ("fednoro", {"s1": 2, "end": 3}, 2),
        ("fedavg", {}, 3),
    ],
)
def test_a_branch_is_equal_to_the_bit_to_a_run_from_the_beginning(
    method, options, begins, federation, kept, tmp_path
):
    chosen = tiny(method, **options)
    scratch = run(chosen, tmp_path / "scratch", federation=federation)
    branch, begun = branched(chosen, tmp_path / "branch", federation, kept)
    assert begun == begins
    assert branch.sha256 == scratch.sha256
    assert log_of(tmp_path / "branch") == log_of(tmp_path / "scratch")


def test_families_hold_what_shares_its_beginning_and_nothing_else():
    family = family_of(tiny("fedavg"))
    alike = [tiny("feda3i", t1=2), tiny("feda3i", t1=2, weighting="intra"), tiny("fednoro")]
    assert {family_of(one) for one in (*alike, tiny("fedavg", "rounds=5"))} == {family}
    others = [tiny("fedavg", loss="dc"), tiny("feda3i", t1="auto"), tiny("clean")]
    others += [tiny("fedavg", change) for change in ("seed=4", "redraw.on=true")]
    assert family not in {family_of(one) for one in others}
    # A learning rate that falls towards the end is another one in a longer run.
    lengths = [tiny("fedavg", "train.schedule=cosine", f"rounds={n}") for n in (3, 5)]
    assert len({family_of(one) for one in lengths}) == 2


@pytest.mark.parametrize("name", REGISTRY.names())
def test_a_run_always_plays_its_own_last_round(name):
    assert 0 <= last_shared(tiny(name)) < 4
    assert last_shared(tiny(name, "redraw.on=true")) == 0, "its offsets are state"


def test_checkpoints_that_are_damaged_or_of_other_cases_are_not_used(federation, kept, tmp_path):
    (damaged,) = kept.rglob("round-3.bin")
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    assert branched(tiny("fedavg"), tmp_path / "a", federation, kept)[1] == 2
    damaged.write_bytes(whole)
    other = replace(federation, test=federation.test.take([0]))
    assert branched(tiny("fedavg"), tmp_path / "b", other, kept)[1] == 0
