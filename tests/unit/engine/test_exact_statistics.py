"""``model.statistics = "exact"``: for every method, on both engines, after a resume as well."""

from dataclasses import replace

import numpy as np
import pytest

from feda3i.core.statistics import norms_of
from feda3i.engine.model_file import read_model
from feda3i.engine.run import job_of, resume, run
from feda3i.errors import RecipeError
from feda3i.methods import REGISTRY
from listeners import StopAfter
from short import SHORT
from stepping import Steps

EXACT = "model.statistics=exact"


def tensors_of(result):
    return read_model(result.path / "model.safetensors")[1]


def is_statistic(name):
    return name.endswith(("running_mean", "running_var"))


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


@pytest.mark.slow
def test_resume_and_workers_give_the_same_model(tiny_recipe, tmp_path):
    chosen = tiny_recipe(EXACT, "method=feda3i", "method.t1=1", "rounds=2")
    whole = run(chosen, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(chosen, tmp_path / "broken", listener=StopAfter())
    assert resume(tmp_path / "broken").sha256 == whole.sha256
    parallel = chosen.model_copy(update={"engine": chosen.engine.model_copy(update={"workers": 2})})
    assert run(parallel, tmp_path / "parallel").sha256 == whole.sha256


@pytest.mark.parametrize(
    "method", ["feda3i", "fedcorr", pytest.param("rmd", marks=pytest.mark.slow)]
)
def test_the_network_engine_gives_the_same_model(tmp_path, method):
    pytest.importorskip("flwr")
    from consortium import Trial, site_names, tiny

    options = {**SHORT[method], "t1": 1}
    data, model = {"cases": 2}, {"statistics": "exact"}
    chosen = tiny(2, method=method, options=options, data=data, model=model)
    local = run(chosen, tmp_path / "local")
    network = Trial(tmp_path, chosen, site_names(3)).play()
    assert network.sha256 == local.sha256


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
