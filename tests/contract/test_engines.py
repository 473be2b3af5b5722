"""Every method gives the same model, bit for bit, on the local engine and over Flower's grid.

The comparison is worth something only where a method shows what it does, so each run must have
reached the phase in which the method is no longer FedAvg.
"""

import pytest

from feda3i.core.trees import unpack, unseal
from feda3i.engine.events import read_events
from feda3i.engine.run import resume, run
from feda3i.methods import REGISTRY
from feda3i.recipe import validate
from listeners import StopAfter
from short import SHORT

pytest.importorskip("flwr")

from consortium import Trial, site_names, tiny


def corrected_masks(path):
    """Return the sites whose memory holds masks that they corrected."""
    files = (path / "memory").glob("*.memory")
    memories = {file.name.partition(".")[0]: unpack(unseal(file.read_bytes())) for file in files}
    return [site for site, tree in memories.items() if tree["memory"]]


def facts(path, name):
    return [event[name] for event in read_events(path / "events.jsonl", "round") if name in event]


REACHED = {
    "adele": corrected_masks,
    "feda3i": lambda path: len({w[-1] for w in facts(path, "weights")[-1].values()}) > 1,
    "fedcorr": lambda path: corrected_masks(path) and 3 in facts(path, "phase"),
    "feddm": lambda path: facts(path, "peers"),
    "fednoro": lambda path: any(facts(path, "noisy")) and facts(path, "weights"),
}


@pytest.mark.parametrize("name", REGISTRY.names())
def test_local_and_network_engine_make_the_same_model(name, tmp_path):
    options = SHORT.get(name, {})
    noise = {"name": "contour", "setting": "skin-ne"}
    rounds = 4 if name == "adele" else 3 if options else 2
    recipe = tiny(rounds, method=name, options=options, data={"cases": 2}, noise=noise)
    local = run(recipe, tmp_path / "local")
    assert REACHED.get(name, bool)(local.path), f"{name} never came to do what it is for"
    # A simulation may pool all cases in one site; the nodes are then those of that federation.
    names = ["all"] if name == "central" else site_names(3)
    network = Trial(tmp_path, recipe, names).play()
    assert network.sha256 == local.sha256
    assert network.scores == pytest.approx(local.scores, abs=0, rel=0, nan_ok=True)


def with_all_options(**engine):
    """Return options of train, redraw, validation and engine beyond their defaults."""
    train = {"optimiser": "adamw", "weight_decay": 0.01, "clip": 1.0, "schedule": "cosine"}
    train |= {"warm_up": 1, "augment": "dermoscopy"}
    sections = {"data": {"cases": 4}, "redraw": {"on": True}, "engine": {"fraction": 0.6, **engine}}
    made = tiny(4, method="feda3i", options=SHORT["feda3i"], train=train, **sections)
    return validate({**made.to_dict(), "validation": {"share": 0.3, "patience": 3}})


def test_all_options_of_training_together_make_the_same_model(tmp_path):
    recipe = with_all_options()
    local = run(recipe, tmp_path / "local")
    trial = Trial(tmp_path, recipe, site_names(3))
    network = trial.play()
    assert not any("offsets_missing" in event for event in trial.events("round"))
    assert network.sha256 == local.sha256
    assert network.best == local.best is not None
    asked = [event["asked"] for event in read_events(local.path / "events.jsonl", "round")]
    assert set(asked) == {2}


@pytest.mark.slow
def test_all_options_of_training_with_two_workers_and_after_a_break(tmp_path):
    expected = run(with_all_options(), tmp_path / "one")
    two = run(with_all_options(workers=2), tmp_path / "two")
    assert (two.sha256, two.best) == (expected.sha256, expected.best)
    with pytest.raises(KeyboardInterrupt):
        run(with_all_options(), tmp_path / "broken", listener=StopAfter(2))
    resumed = resume(tmp_path / "broken")
    assert (resumed.sha256, resumed.best) == (expected.sha256, expected.best)
