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
        try:
            future.set_result(play_order(order))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self):
        pass


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Return what loads the tiny grid with changes."""
    path = tmp_path_factory.mktemp("grid") / "tiny.toml"
    path.write_text(GRID)
    return lambda *changes: load_grid(str(path), changes)


@pytest.fixture(scope="session")
def agenda(tiny):
    """Return what makes an agenda of the tiny grid with changes."""
    return lambda results, *changes: agenda_of(expand(tiny(*changes)), results)


@pytest.fixture
def play():
    """Return what plays an agenda in this process: it returns the orders given and the failures."""

    def played(agenda, folder):
        Here.orders = []
        places = folder / "out", folder / "res"
        failed = conduct(agenda, *places, lambda line: None, new_worker=Here)
        return Here.orders, failed

    return played


@pytest.fixture(scope="session")
def played(agenda, tmp_path_factory):
    """Return a folder with the grid's results, ``res``, and its runs, ``out``."""
    folder = tmp_path_factory.mktemp("played")
    said = []
    places = folder / "out", folder / "res"
    assert not conduct(agenda(folder / "res"), *places, said.append, 2, new_worker=Here)
    assert said[-1].startswith("[5/5] ")
    return folder
