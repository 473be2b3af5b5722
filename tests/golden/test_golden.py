"""The numbers of every method, and the bits of what is exact, are those that were reviewed."""

import golden_bits
import golden_run
import plant
import pytest
from golden_run import TOLERANCE, VARIANTS

from feda3i.methods import REGISTRY

ROWS = plant.ROWS


def test_every_method_has_a_row():
    assert {method for method, _, _ in VARIANTS.values()} >= set(REGISTRY.names())
    missing = [name for name in VARIANTS if name not in ROWS]
    assert not missing, f"new method: python tests/golden/golden_run.py {missing[0]}"
    assert set(ROWS) == set(VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_numbers_are_as_expected(name):
    moved = golden_run.compare(golden_run.row_of(name), ROWS[name])
    assert not moved, f"{len(moved)} numbers moved, farthest first: {dict(list(moved.items())[:5])}"


@pytest.mark.parametrize("name", VARIANTS)
def test_rounding_does_not_reach_the_numbers(name):
    """A hundred times the rounding error of float64 in every weight stays far below the tolerance:
    no decision of a method sits on a border, whatever a processor makes of the last bits."""
    found = golden_run.row_of(name, jitter=1e-14)
    far = max(golden_run.distance(found.get(path), ROWS[name].get(path)) for path in ROWS[name])
    assert far < TOLERANCE / 50


@pytest.mark.parametrize("name", golden_bits.THINGS)
def test_bits_are_as_expected(name):
    assert golden_bits.bits_of(name) == plant.BITS[name]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", plant.PLANTS, ids=lambda mistake: mistake.text)
def test_a_planted_mistake_is_noticed(mistake):
    moved = mistake.moved()
    assert moved
    assert max(far for far, _, _ in moved.values()) >= plant.LEAST


def test_every_method_has_a_planted_mistake():
    planted = {VARIANTS[p.row][0] for p in plant.PLANTS if p.row in VARIANTS}
    assert planted == set(REGISTRY.names()) - {"redraw"}  # FedAvg; its masks have own tests
