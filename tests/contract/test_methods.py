"""Every registered method keeps every promise."""

import pytest

from feda3i import contract
from feda3i.methods import REGISTRY

# Options that make a method show all of its phases within the few rounds of a check.
SHORT: dict[str, dict[str, object]] = {"feda3i": {"t1": 1}}


@pytest.mark.parametrize("promise", contract.PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("name", REGISTRY.names())
def test_method_keeps_promise(name, promise):
    promise(contract.Subject(name, SHORT.get(name, {})))
