"""The numbers of every method are those that were written down when it was reviewed."""

import json

import pytest
from golden_run import EXPECTED, row_of

from feda3i.methods import REGISTRY

ROWS = json.loads(EXPECTED.read_text())


@pytest.mark.parametrize("name", REGISTRY.names())
def test_numbers_are_as_expected(name):
    assert name in ROWS, f"new method: python tests/golden/golden_run.py {name}"
    found, expected = row_of(name), ROWS[name]
    # Other processors round differently, and training amplifies it; a change of method is larger.
    assert found["loss"] == pytest.approx(expected["loss"], rel=5e-3)
    assert found["norm"] == pytest.approx(expected["norm"], rel=1e-3)
    assert found["dice"] == pytest.approx(expected["dice"], abs=0.02)
