"""Every registered method keeps every promise."""

import pytest

from feda3i import contract
from feda3i.methods import REGISTRY
from short import SHORT


@pytest.mark.parametrize("promise", contract.PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("name", REGISTRY.names())
def test_method_keeps_promise(name, promise):
    promise(contract.Subject(name, SHORT.get(name, {})))
