"""Every method gives the same model, bit for bit, on the local engine and over Flower's grid."""

import pytest

from feda3i.engine.run import run
from feda3i.methods import REGISTRY

pytest.importorskip("flwr")

from consortium import Trial, site_names, tiny

# Options that make a method show all of its phases within three rounds.
SHORT = {
    "adele": {"points": 2},
    "feda3i": {"t1": 1},
    "fedcorr": {"t1": 1, "t2": 1},
    "fednoro": {"s1": 1},
    "rmd": {"t1": 2, "warp_from": 1},
}


@pytest.mark.parametrize("name", REGISTRY.names())
def test_local_and_network_engine_make_the_same_model(name, tmp_path):
    options = SHORT.get(name, {})
    noise = {"name": "contour", "setting": "skin-ne"}
    rounds = 3 if options else 2
    recipe = tiny(rounds, method=name, options=options, data={"cases": 2}, noise=noise)
    local = run(recipe, tmp_path / "local")
    # A simulation may pool all cases in one site; the nodes are then those of that federation.
    names = ["all"] if name == "central" else site_names(3)
    network = Trial(tmp_path, recipe, names).play()
    assert network.sha256 == local.sha256
    assert network.scores == pytest.approx(local.scores, abs=0, rel=0, nan_ok=True)
