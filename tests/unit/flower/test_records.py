"""Orders and replies survive the wire unchanged; nothing else gets through."""

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from flwr.app import RecordDict
from hypothesis import given, settings

from feda3i.core.layout import Entry, Layout
from feda3i.core.messages import Order, Params, Reply
from feda3i.errors import WireError
from feda3i.flower import records

LAYOUT = Layout(
    (
        Entry("a.weight", (3, 2), 0, 6, 0, False, True),
        Entry("a.counter", (), 0, 1, 0, True, False),
        Entry("b.weight", (4,), 6, 10, 1, False, True),
    ),
    ("a", "b"),
)
numbers = st.floats(allow_infinity=True, allow_nan=False)


def params(seed=0):
    draw = np.random.default_rng(seed)
    return Params(draw.normal(size=10).astype(np.float32), draw.integers(9, size=1))


@given(
    st.dictionaries(st.text(max_size=9), numbers | st.lists(numbers, max_size=4), max_size=4),
    st.integers(1, 10**6),
)
@settings(max_examples=30, deadline=None)
def test_replies_come_back_as_they_were(found, cases):
    reply = Reply("fit", 3, "A", cases, found, params(), seconds=1.5)
    content = records.write_reply(reply, "run", "layout")
    back = records.read_reply(content, *records.read_header(content), LAYOUT)
    assert replace(back, params=None) == replace(reply, params=None)
    assert all(map(np.array_equal, back.params, reply.params))


def test_orders_come_back_as_they_were():
    order = Order("fit", 2, "A", params(), {"lr": 0.1, "flag": True}, {"near": params(1)})
    content = records.write_order(order, "run", "layout", records.pack_params(order.params))
    read = content, *records.read_header(content), LAYOUT
    back = records.read_order(*read, ("near", "far"))
    assert (back.settings, list(back.networks)) == (dict(order.settings), ["near"])
    assert np.array_equal(back.networks["near"].values, order.networks["near"].values)
    with pytest.raises(WireError, match=r"arrays\.near"):
        records.read_order(*read, ())


def test_a_survey_reply_holds_no_parameters():
    content = records.write_reply(Reply("survey", 1, "A", 3, {}, params()), "run", "layout")
    with pytest.raises(WireError, match="not declared"):
        records.read_reply(content, *records.read_header(content), LAYOUT)


def test_a_message_of_something_else_is_refused():
    with pytest.raises(WireError, match="without a header"):
        records.read_header(RecordDict())
