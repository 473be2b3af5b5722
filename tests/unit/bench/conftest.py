"""A grid of seconds, and workers that play in this process."""

import json

import pytest

from feda3i.bench import conduct
from feda3i.bench.player import Player

GRID = """
title = "tiny"
seeds = [0]
rows = ["fedavg", "feda3i,weighting=intra", "feda3i", "gce", "clean"]
set = [
    "data.size=32", "data.sites=3", "data.cases=3", "data.test=4", "model.width=4",
    "train.epochs=1", "rounds=3", "feda3i.t1=2", "evaluate.every=1",
]
[settings]
"SKIN N_S" = { recipe = "skin_ns-small", data = "skin" }
"""


class Pipe:
    """The end of a pipe that gives every line to a queue."""

    def __init__(self, process, told):
        self.process, self.told = process, told

    def write(self, text):
        self.told.put((self.process, json.loads(text)))


class Here:
    """A worker process that is none: it plays as soon as it gets an order."""

    orders: list = []  # noqa: RUF012 - shared on purpose: a test reads it

    def __init__(self, told):
        self.player = Player(Pipe(self, told))

    def give(self, order):
        Here.orders.append(order)
        self.player.play(order)

    def stop(self):
        pass


@pytest.fixture(scope="module")
def grid_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid") / "tiny.toml"
    path.write_text(GRID)
    return path


@pytest.fixture
def here(monkeypatch):
    """Play runs in this process and return the orders given."""
    monkeypatch.setattr(conduct, "Process", Here)
    Here.orders = []
    return Here.orders


@pytest.fixture(scope="module")
def played(grid_file, tmp_path_factory):
    """Return a folder with the grid's results, ``res``, and its runs, ``out``."""
    from feda3i.bench.grid import expand, load_grid
    from feda3i.bench.progress import Progress

    folder = tmp_path_factory.mktemp("played")
    agenda = conduct.agenda_of(expand(load_grid(str(grid_file))), folder / "res")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conduct, "Process", Here)
        progress = Progress(len(agenda.cells), 0, quiet=True)
        conductor = conduct.Conductor(agenda, folder / "out", folder / "res", progress, cores=2)
        conductor.play()
        assert not conductor.failed
    return folder
