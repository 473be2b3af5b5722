"""A grid of seconds, and workers that play in this process."""

from concurrent.futures import Future

import pytest

from feda3i.bench.conduct import agenda_of, conduct
from feda3i.bench.conduct import play as play_order
from feda3i.bench.grid import expand, load_grid

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


class Here:
    """A worker that is no process: it plays as soon as it gets an order."""

    orders: list = []  # noqa: RUF012 - shared on purpose: a test reads it

    def submit(self, order):
        Here.orders.append(order)
        future = Future()
        future.set_result(play_order(order))
        return future

    def close(self):
        pass


@pytest.fixture(scope="module")
def grid_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid") / "tiny.toml"
    path.write_text(GRID)
    return path


@pytest.fixture
def play():
    """Return what plays an agenda in this process: it returns the orders given and the failures."""

    def played(agenda, folder):
        Here.orders = []
        places = folder / "out", folder / "res"
        failed = conduct(agenda, *places, lambda line: None, new_worker=Here)
        return Here.orders, failed

    return played


@pytest.fixture(scope="module")
def played(grid_file, tmp_path_factory):
    """Return a folder with the grid's results, ``res``, and its runs, ``out``."""
    folder = tmp_path_factory.mktemp("played")
    agenda = agenda_of(expand(load_grid(str(grid_file))), folder / "res")
    said = []
    assert not conduct(agenda, folder / "out", folder / "res", said.append, 2, new_worker=Here)
    assert said[-1].startswith("[5/5] ")
    return folder
