"""``model.statistics = "exact"`` for every method; ``contract/test_engines`` has both engines."""

from dataclasses import replace

import numpy as np
import pytest

from feda3i.core.statistics import norms_of
from feda3i.engine.model_file import read_model
from feda3i.engine.run import job_of, run
from feda3i.errors import RecipeError
from feda3i.methods import REGISTRY
from stepping import Steps

EXACT = "model.statistics=exact"


def test_exact_statistics_are_those_of_all_images_whatever_the_sites(tiny_recipe, tmp_path):
    """The images of a federation have one mean, however they are divided among sites."""
    chosen = tiny_recipe(EXACT, "rounds=1", "train.batch=9", "data.cases=3")
    result = run(chosen, tmp_path / "run")
    job, tensors = read_model(result.path / "model.safetensors")
    network = job.network()
    network.load_state_dict(tensors)
    from feda3i.core.predictor import image_tensor
    from feda3i.simulation.federation import federation_of

    images = image_tensor(np.asarray(federation_of(chosen).train.images), job.device())
    entering = network.inc[0]((images - 128) / 64).detach().double()
    mean, variance = entering.mean((0, 2, 3)), entering.var((0, 2, 3), correction=0)
    np.testing.assert_allclose(tensors["inc.1.running_mean"], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tensors["inc.1.running_var"], variance, rtol=1e-4)


@pytest.mark.parametrize("method", REGISTRY.names())
def test_every_method_with_one_global_network_takes_it(tiny_recipe, federation, method):
    job = job_of(tiny_recipe(EXACT, f"method={method}"), federation)
    if method in ("iopfl", "local"):
        with pytest.raises(RecipeError, match="networks of its own"):
            _ = job.layout
    else:
        assert len(norms_of(job.layout)) == (36 if method == "rmd" else 18)


def test_group_norm_has_nothing_to_measure(tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match="keeps no running statistics"):
        run(tiny_recipe(EXACT, "model.norm=group"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_site_that_cannot_be_measured_is_left_out_and_named(tmp_path):
    steps = Steps(tmp_path, "fedavg", rounds=2)
    model = steps.job.recipe.model.model_copy(update={"statistics": "exact"})
    steps.job = replace(steps.job, recipe=steps.job.recipe.model_copy(update={"model": model}))
    steps.lose("site-2", 1, "measure")
    event = steps.play()
    assert event["measure_missing"] == {"site-2": "lost on purpose"}
    assert event["answered"] == 3
    tasks = [(order.task, order.site) for order in steps.transport.orders]
    assert tasks[3:] == [("measure", f"site-{k}") for k in (1, 2, 3)]
