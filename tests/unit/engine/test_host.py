"""Site memory, and what a reply may hold."""

import math
import stat
from dataclasses import replace

import numpy as np
import pytest

from feda3i import testing
from feda3i.core.messages import TASKS, Missing, Order, Params, Reply, Wire
from feda3i.core.wire import check_order, check_reply
from feda3i.engine.host import SiteHost
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.errors import RunError, WireError


@pytest.fixture
def station(federation, tmp_path):
    job = job_of(testing.Subject("elr", {}).recipe(), federation)
    return SiteHost(job, federation.train, federation.sites, tmp_path / "memory")


def order(station, round, site="site-1", task="fit"):
    return Order(task, round, site, station.job.initial)


def test_an_order_reads_the_newest_memory_from_before_it_and_what_is_too_old_goes(station):
    for round in (1, 2, 3, 4):
        station.remember(order(station, round), {"t": np.array([round])})
    assert station.recall(order(station, 4))["t"] == [3]
    assert station.recall(order(station, 3))["t"] == [2]
    assert station.recall(order(station, 3, site="site-2")) == {}
    assert stat.S_IMODE(station.memory_folder.stat().st_mode) == 0o700
    files = sorted(file.name for file in station.memory_folder.iterdir())
    assert files == [f"site-1.00000{n}.{TASKS.index('fit')}.memory" for n in (2, 3, 4)]
    with pytest.raises(RunError, match="too old to be resumed"):
        station.recall(order(station, 2))
    file = station.memory_folder / files[-1]
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(RunError, match=r"memory of site site-1 cannot be read.*damaged"):
        station.recall(order(station, 5))


def test_a_repeated_order_finds_what_it_found_first_and_an_emptied_memory_stays_empty(
    station, monkeypatch
):
    asked = order(station, 1)
    with one_thread():
        first, _, again = (station.answer(one) for one in (asked, replace(asked, round=2), asked))
    assert np.array_equal(first.params.values, again.params.values)
    forget = lambda self, site: site.memory.clear() or {"loss": 0.5}
    monkeypatch.setattr(type(station.job.method), "fit", forget)
    station.answer(order(station, 3))
    assert station.recall(order(station, 4)) == {}


def test_names_of_sites_cannot_choose_a_path(station):
    for number, name in enumerate(("../../evil", "Krankenhaus Süd", "a/b", "." * 80), 1):
        station.remember(order(station, 1, site=name), {"t": np.array([number])})
        assert station.recall(order(station, 2, site=name))["t"] == [number]
        assert len(list(station.memory_folder.iterdir())) == number


WIRE = Wire(fit=("one", "many"), survey=("q",), settings=("flag",), per_class=("many", "q"))


GOOD = {"loss": 0.5, "one": 1, "many": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"numbers": GOOD | {"image": 3.0}}, "not declare"),
        ({"numbers": {"loss": 0.5, "one": 1}}, "lacks the declared number 'many'"),
        ({"numbers": GOOD | {"many": [1.0]}}, "declared entries"),
        ({"numbers": GOOD | {"many": 1.0}}, "declared entries"),
        ({"numbers": GOOD | {"one": [1] * 4096}}, "expected a number"),
        ({"numbers": GOOD | {"loss": math.nan}}, "finite"),
        ({"numbers": GOOD | {"one": "1"}}, "expected a number from"),
        ({"cases": 0}, "from 1 to"),
        ({"cases": True}, "from 1 to"),
        ({"params": None}, "parameters belong to a fit reply"),
        ({"params": Params(np.zeros(3, np.float32), np.zeros(0, np.int64))}, "shape"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_declared_reply_passes_and_anything_else_is_refused(station, changes, words):
    good = Reply("fit", 1, "a", 3, GOOD, station.job.initial)
    check_reply(good, WIRE, station.layout, classes=2)
    with pytest.raises(WireError, match=words):
        check_reply(replace(good, **changes), WIRE, station.layout, classes=2)


def test_an_order_holds_declared_settings_only(station):
    told = replace(order(station, 1), settings={"flga": True})
    with pytest.raises(WireError, match="did you mean 'flag'"):
        check_order(told, WIRE, station.layout)


def test_an_update_that_is_not_finite_is_left_out_and_the_rest_goes_on(
    federation, tmp_path, monkeypatch
):
    job = job_of(testing.Subject("fedavg", {}).recipe(), federation)
    transport = LocalTransport(job, federation, tmp_path)
    original = type(job.method).fit

    def poisoned(self, site):
        numbers = original(self, site)
        if site.name == "site-2":
            next(site.network.parameters()).data.fill_(math.inf)
        return numbers

    monkeypatch.setattr(type(job.method), "fit", poisoned)
    params = job.initial
    answers = list(transport.call([Order("fit", 1, s, params) for s in federation.names()]))
    assert [type(answer) for answer in answers] == [Reply, Missing, Reply]
    assert "NaN or infinite" in answers[1].reason
