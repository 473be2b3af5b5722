"""Runs one after the other in one process, with a beginning in common."""

import json

from feda3i.bench.branching import family_of, last_shared, run_or_branch
from feda3i.engine.console import Silent
from feda3i.engine.run import run
from feda3i.simulation.federation import federation_of


class Counts(Silent):
    def __init__(self):
        self.rounds = []

    def round(self, event):
        self.rounds.append(event["round"])


def test_feda3i_goes_on_from_fedavg_and_ends_as_if_it_had_run_alone(tiny_recipe, tmp_path):
    chosen = tiny_recipe("method=feda3i", "method.t1=2", "method.safe=false")
    plain = tiny_recipe("method=fedavg")
    federation = federation_of(chosen)
    wanted, played = [last_shared(chosen)], {}
    results = {}
    for recipe in (plain, chosen):
        name, listener = recipe.method.name, Counts()
        results[name] = run_or_branch(
            recipe, tmp_path / name, federation, tmp_path / "kept", wanted, listener
        )
        played[name] = listener.rounds
    assert played == {"fedavg": [1, 2, 3], "feda3i": [3]}
    alone = run(chosen, tmp_path / "alone", federation=federation)
    assert results["feda3i"].sha256 == alone.sha256
    assert results["feda3i"].scores == alone.scores
    manifest = json.loads((tmp_path / "feda3i" / "manifest.json").read_text())
    assert manifest["branched"] == 2


def test_a_run_whose_rate_falls_to_its_end_is_no_beginning_of_a_longer_one(tiny_recipe):
    def family(*overrides):
        return family_of(tiny_recipe("method=fedavg", *overrides))

    assert family("rounds=3") == family("rounds=5")
    exact = "model.statistics=exact"
    assert family("rounds=3", exact) == family("rounds=5", exact) != family("rounds=3")
    falling = "train.schedule=cosine"
    assert family("rounds=3", falling) != family("rounds=5", falling)
