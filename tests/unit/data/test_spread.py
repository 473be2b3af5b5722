import os
import threading

import numpy as np
import pytest

from feda3i.basics import spread as module
from feda3i.basics.spread import can_fork, spread
from feda3i.data.store import FileStore, Store


@pytest.fixture(params=["processes", "threads"])
def way(request, monkeypatch):
    if request.param == "processes" and not hasattr(os, "fork"):
        pytest.skip("no fork here")
    monkeypatch.setattr(module, "can_fork", lambda: request.param == "processes")
    return request.param


def test_results_come_in_order_from_several_workers(way):
    count = 3 * module._FEW + 5
    found = spread(lambda place: (place, os.getpid(), threading.get_ident()), count, workers=3)
    assert [place for place, _, _ in found] == list(range(count))
    where = {pid for _, pid, _ in found}
    assert (os.getpid() in where) == (way == "threads")


def test_few_calls_are_made_here():
    assert spread(lambda _: os.getpid(), module._FEW, workers=8) == [os.getpid()] * module._FEW


def test_errors_reach_the_caller(way):
    def work(place):
        if place == 150:
            raise ValueError("case 150")

    with pytest.raises(ValueError, match="case 150"):
        spread(work, 3 * module._FEW, workers=3)


def test_forking_is_off_while_other_threads_run():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_both_stores_take_cases_from_workers(way, kind, tmp_path):
    count = 3 * module._FEW
    shapes = {"images": (count, 5, 4, 3), "masks": (count, 5, 4)}
    store = Store(shapes) if kind == "memory" else FileStore(shapes, tmp_path / "x")
    values = np.random.default_rng(0).integers(0, 256, shapes["images"], np.uint8)

    def work(place):
        store.put("images", place, values[place])
        store.put("masks", place, values[place, ..., 0])

    spread(work, count, workers=3)
    arrays = store.arrays()
    np.testing.assert_array_equal(arrays["images"], values)
    np.testing.assert_array_equal(arrays["masks"], values[..., 0])
    store.close()
    assert list(tmp_path.iterdir()) == []
