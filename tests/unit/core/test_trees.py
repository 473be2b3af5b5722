import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feda3i.core.messages import Params
from feda3i.core.trees import pack, seal, unpack, unseal
from feda3i.errors import WireError

single = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)
some = lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
json_values = st.recursive(single | st.text(), some, max_leaves=8)


@given(json_values)
def test_json_comes_back(value):
    assert unpack(pack({"value": value})) == {"value": value}


def test_arrays_and_params_come_back_and_other_objects_are_refused():
    params = Params(np.arange(5, dtype=np.float32), np.array([7], np.int64))
    tree = {"deep": [{"mask": np.ones((2, 3), np.uint8)}], "params": params, "none": None}
    back = unpack(pack(tree))
    assert back["deep"][0]["mask"].dtype == np.uint8
    assert back["deep"][0]["mask"].shape == (2, 3)
    assert isinstance(back["params"], Params)
    assert np.array_equal(back["params"].values, params.values)
    with pytest.raises(WireError, match="only JSON values and arrays"):
        pack({"model": object()})
    wrong = params._replace(values=np.arange(3, dtype=np.float64))
    with pytest.raises(WireError, match="float32"):
        unpack(pack({"params": wrong}))


@pytest.mark.parametrize("data", [b"", b"abc", b"\xff" * 64, pack({"a": np.arange(9)})[:-1]])
def test_malformed_bytes_are_an_error(data):
    with pytest.raises(WireError, match="truncated"):
        unpack(data)


@given(st.binary(min_size=1, max_size=64), st.integers(0, 10**6))
def test_a_changed_byte_is_noticed(data, where):
    sealed = bytearray(seal(data))
    sealed[where % len(sealed)] ^= 1
    with pytest.raises(WireError, match="damaged"):
        unseal(bytes(sealed))
    assert unseal(seal(data)) == data
