"""Every registered method keeps every promise."""

import pytest

from feda3i import testing
from feda3i.methods import REGISTRY
from feda3i.methods.base import Method
from short import SHORT

# A method that changes the loss alone inherits all else from FedAvg, where it is tried; "make
# test-all" tries it everywhere.
HOOKS = ("start", "plan", "digest", "weights", "merge", "models", "network", "fit", "step")
SHORTLY = (testing.trains_and_repeats, testing.learns, testing.declares_its_wire)


def is_long(name, promise):
    kind = REGISTRY.get(name)
    has_own = any(getattr(kind, hook) is not getattr(Method, hook) for hook in HOOKS)
    return promise not in SHORTLY and not has_own and name != "fedavg"


CASES = [
    pytest.param(name, promise, marks=[pytest.mark.slow] if is_long(name, promise) else [])
    for name in REGISTRY.names()
    for promise in testing.PROMISES
]


@pytest.mark.parametrize(("name", "promise"), CASES)
def test_method_keeps_promise(name, promise):
    promise(testing.Subject(name, SHORT.get(name, {})))
