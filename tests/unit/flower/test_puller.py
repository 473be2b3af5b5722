"""Fetching replies: one that hangs holds up nobody, one that cannot be read is named."""

import threading

import httpx
import pytest

from feda3i.errors import WireError
from feda3i.flower.puller import MOST, Puller
from waiting import wait_until


class Grid:
    """Replies by message; some wait until they are let go, some cannot be read."""

    def __init__(self):
        self.go = threading.Event()
        self.asked = []

    def pull_messages(self, identifiers):
        self.asked += identifiers
        (name,) = identifiers
        if name.startswith("hangs"):
            self.go.wait()
        if name == "garbage":
            raise ValueError("no message\x1b[2J")
        if name == "cut":
            raise httpx.ConnectError("gone")
        return [f"reply to {name}"] if name != "nothing" else []


@pytest.mark.parametrize("patience", [None, 60.0])
def test_replies_and_errors_come_through(patience):
    puller = Puller(Grid(), patience)
    assert puller.pull("one") == ["reply to one"]
    assert puller.pull("nothing") == []
    with pytest.raises(WireError, match=r"ValueError: no message\\x1b"):
        puller.pull("garbage")
    with pytest.raises(httpx.ConnectError):
        puller.pull("cut")


def test_a_reply_that_hangs_holds_up_nobody():
    grid = Grid()
    puller = Puller(grid, patience=0.0)
    try:
        assert puller.pull("hangs") == []
        assert puller.pull("hangs") == []
        found = []
        wait_until(lambda: found or found.extend(puller.pull("one")))
        assert found == ["reply to one"]
    finally:
        grid.go.set()
    wait_until(lambda: puller.pull("hangs") == ["reply to hangs"])


def test_fetches_that_nobody_asks_for_any_more_make_room():
    grid = Grid()
    puller = Puller(grid, patience=0.0)
    for number in range(MOST):
        assert puller.pull(f"hangs {number}") == []
    assert puller.pull("one") == []
    assert "one" not in grid.asked
    grid.go.set()
    wait_until(lambda: puller.pull("one") == ["reply to one"])
