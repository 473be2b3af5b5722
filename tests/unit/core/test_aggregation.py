import numpy as np
import pytest
import torch

from feda3i.core.aggregation import combine
from feda3i.core.layout import Layout
from feda3i.core.messages import Params
from feda3i.core.server import Gathered
from feda3i.errors import RecipeError, RunError, WireError
from feda3i.models.stages import find_stages
from feda3i.models.unet import UNet
from feda3i.seeding import rng


@pytest.fixture(scope="module")
def layout():
    network = UNet(channels=1, width=4)
    return Layout.of(network, find_stages(network, torch.zeros(1, 1, 32, 32)))


def some_params(layout, count, seed=0):
    draw = rng(seed, "params")
    return [
        Params(
            draw.normal(size=layout.size).astype(np.float32), draw.integers(0, 9, layout.integers)
        )
        for _ in range(count)
    ]


def gathered_of(layout, params, folder=None):
    gathered = Gathered(layout, len(params), folder)
    for one in params:
        gathered.add(one)
    return gathered


@pytest.mark.parametrize("count", [1, 15, 16, 17, 40])
def test_fold_and_combine_are_the_weighted_mean_in_float64_of_all_or_of_each_stage(layout, count):
    params = some_params(layout, count)
    rows = np.stack([p.values for p in params])
    by_stage = rng(1, "w").dirichlet(np.ones(count), size=len(layout.stages)).T
    got = gathered_of(layout, params).combine(by_stage)
    for entry in layout.floats:
        where = slice(entry.start, entry.stop)
        assert np.abs(got.values[where] - by_stage[:, entry.stage] @ rows[:, where]).max() < 1e-6
    weights = by_stage[:, 0].tolist()
    got = gathered_of(layout, params).fold(weights, 1.0)
    exact = np.array(weights) @ rows
    assert np.abs(got.values - exact).max() < 1e-6
    assert np.array_equal(got.counts, np.max([p.counts for p in params], axis=0))
    assert (got.values.dtype, got.counts.dtype) == (np.float32, np.int64)


def test_missing_sites_are_divided_out(layout):
    one, two = some_params(layout, 2)
    exact = 0.4 * one.values.astype(np.float64) + 0.6 * two.values
    found = gathered_of(layout, [one, two]).fold([0.2, 0.3], 1.0)
    assert np.allclose(found.values, exact, atol=1e-6)
    same = gathered_of(layout, [one] * 4).fold([0.25] * 4, 1.0)
    assert np.array_equal(same.values, one.values)
    with pytest.raises(RunError, match="nothing to average"):
        gathered_of(layout, []).fold([], 1.0)


def test_gathered_rows_in_a_file_give_the_same_bits(layout, monkeypatch, tmp_path):
    results = []
    for limit in (2**30, 0):
        monkeypatch.setattr("feda3i.core.server.IN_MEMORY", limit)
        gathered = gathered_of(layout, some_params(layout, 3), tmp_path)
        results.append(gathered.combine(np.array([0.2, 0.3, 0.5])).values)
    assert np.array_equal(*results)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "weights", [[0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], [0.2, 0.3, 0.5]], ids=str
)
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(RunError, match="weights"):
        combine(np.zeros((2, 4), np.float32), np.array(weights), [(0, 4, 0)])


def test_layout_reads_what_it_wrote_and_refuses_what_does_not_fit(layout):
    network = UNet(channels=1, width=4)
    (params,) = some_params(layout, 1)
    layout.write(params, network)
    back = layout.read(network)
    assert np.array_equal(back.values, params.values)
    assert np.array_equal(back.counts, params.counts)
    assert layout.trained().sum() == sum(p.numel() for p in network.parameters())
    with pytest.raises(WireError, match="shape"):
        layout.check(Params(np.zeros(3, np.float32), np.zeros(layout.integers, np.int64)))
    (params,) = some_params(layout, 1)
    params.values[5] = np.nan
    with pytest.raises(WireError, match="NaN"):
        layout.check(params)
    network = UNet(channels=1, width=4).double()
    with pytest.raises(RecipeError, match="float32"):
        Layout.of(network, find_stages(network, torch.zeros(1, 1, 32, 32, dtype=torch.float64)))
