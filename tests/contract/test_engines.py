"""Every method gives the same model, bit for bit, on the local engine and over Flower's grid.

The comparison is worth something only where a method shows what it does, so each run must have
reached the phase in which the method is no longer FedAvg.
"""

import pytest

from feda3i.core.trees import unpack, unseal
from feda3i.engine.run import run
from feda3i.log.events import read_events
from feda3i.methods import REGISTRY
from short import SHORT

pytest.importorskip("flwr")

from consortium import Trial, site_names, tiny


def corrected_masks(path):
    """Return the sites whose memory holds masks that they corrected."""
    files = (path / "memory").glob("*.memory")
    memories = {file.name.partition(".")[0]: unpack(unseal(file.read_bytes())) for file in files}
    return [site for site, tree in memories.items() if tree["memory"]]


def facts(path, name):
    """Return a fact of every round that recorded it."""
    return [event[name] for event in read_events(path / "events.jsonl", "round") if name in event]


REACHED = {
    "adele": corrected_masks,
    "feda3i": lambda path: facts(path, "survey") and len(set(last_say(path))) > 1,
    "fedcorr": lambda path: corrected_masks(path) and 3 in facts(path, "phase"),
    "feddm": lambda path: facts(path, "peers"),
    "fednoro": lambda path: any(facts(path, "noisy")) and facts(path, "weights"),
}


def last_say(path):
    """Return the weights of the last stage in the last round."""
    return [weights[-1] for weights in facts(path, "weights")[-1].values()]


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
