"""De-conflicted sums: invariants of the method, and a second implementation of the tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from feda3i.core.layout import Layout
from feda3i.methods.deconflict import add_pair, deconflicted_mean, groups_of
from feda3i.models.stages import find_stages
from feda3i.models.unet import UNet

numbers = st.floats(-3, 3, allow_subnormal=False)


def naive(updates, history):
    """Return the same from the text of the specification, pair by pair."""

    def join(a, b):
        inner = a @ b
        return a + b if inner >= 0 else a - inner / (b @ b) * b + b - inner / (a @ a) * a

    vectors = list(updates)
    while len(vectors) > 2:
        vectors.sort(key=lambda v: -(v @ history))
        joined = []
        while len(vectors) > 1:
            joined.append(join(vectors.pop(0), vectors.pop()))
        vectors = joined + vectors
    return (vectors[0] if len(vectors) == 1 else join(*vectors)) / len(updates)


@pytest.mark.parametrize("sites", [1, 2, 3, 4, 5, 6, 7, 9, 50])
def test_it_is_the_tree_of_the_specification(sites):
    rng = np.random.default_rng(sites)
    updates, history = rng.normal(size=(sites, 6)), rng.normal(size=6)
    found = deconflicted_mean(updates, history)
    assert found == pytest.approx(naive(updates, history), abs=1e-9)


@given(arrays(float, 4, elements=numbers), arrays(float, 4, elements=numbers))
def test_a_pair_is_symmetric_finite_and_without_conflict(a, b):
    found = add_pair(a, b)
    assert np.isfinite(found).all()
    assert found == pytest.approx(add_pair(b, a), abs=1e-9)
    assert found @ a >= -1e-6 * (1 + a @ a + b @ b)
    assert found @ b >= -1e-6 * (1 + a @ a + b @ b)


def test_vectors_of_nothing_are_no_trouble():
    for small in (0.0, 1e-20, 1e-200):
        updates = np.array([[1.0, 0.0], [-small, 0.0], [0.0, small]])
        found = deconflicted_mean(updates, np.zeros(2))
        assert found == pytest.approx([1 / 3, 0.0], abs=1e-12)


def test_the_units_of_the_unet_are_convolutions_with_their_norm():
    network = UNet()
    layout = Layout.of(network, find_stages(network))
    groups = groups_of(layout)
    assert len(groups) == 19
    assert [0, *(stop for _, stop in groups)] == [*(start for start, _ in groups), layout.size]
    inside = [
        {e.name.rpartition(".")[0] for e in layout.floats if start <= e.start < stop}
        for start, stop in groups
    ]
    assert (inside[0], inside[-1]) == ({"inc.0", "inc.1"}, {"outc"})
    assert all(len(modules) == 2 for modules in inside[:-1])
