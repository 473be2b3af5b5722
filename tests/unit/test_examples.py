"""The scripts of ``examples/``: what each shows, and the same plug-ins announced by a package."""

import importlib.util
import json
import sys
from itertools import accumulate
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import feda3i
from data_files import lesion
from feda3i import registry
from feda3i.errors import DataError, RecipeError
from feda3i.methods import REGISTRY as METHODS
from feda3i.simulation.federation import load_data

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["rounds=1", "data.size=32", "data.sites=2", "data.cases=2", "data.test=2"]
SMALL += ["train.epochs=1", "engine.workers=1", "method=fedavg"]
OPTIONS = ["model.width=4", "noise.setting=skin-ns", "method.power=3"]


def example(name):
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_arrays_are_audited_and_put_right_and_masks_of_pipelines_get_noise():
    found = example("audit_arrays").main()
    assert [found[site][0] for site in ("north", "south")] == ["larger", "smaller"]
    assert found["north"][1] > 0 > found["south"][1]
    found = example("noisy_masks").main()
    assert found["small"] < found["given"] < found["large"]
    assert found["in a pipeline"] > found["given"]


def test_pytorch_example_weighs_quality_in_the_last_stage():
    rows = example("pieces_pytorch").main()
    first, last = np.array(list(rows.values())).T
    assert first.tolist() == [0.25] * 4
    assert last.sum() == pytest.approx(1)
    assert last[1] > last[0]  # nearer to the truth than the other of its group
    assert last[2] > last[3]


def test_a_run_from_arrays_says_where_its_cases_come_from(tmp_path, request):
    run = tmp_path / "run"
    assert 0 <= example("run_arrays").main(str(run)) <= 1
    assert 'name = "arrays"' in (run / "recipe.toml").read_text("utf-8")
    code, _, error = request.getfixturevalue("feda3i")("evaluate", str(run))
    assert code == 2
    assert "arrays in memory" in error


def test_plug_ins_are_named_by_their_file(tmp_path):
    own = f"{EXAMPLES}/own_"
    named = [f"model={own}network.py:tiny", f"noise={own}noise.py:Polygon", "noise.corners=5"]
    named += [f"method={own}method.py:MyMethod", *OPTIONS]
    assert feda3i.run(feda3i.recipe.load(None, [*SMALL, *named]), tmp_path / "run").scores


PACKAGE = {"methods": "mine = own_method:MyMethod", "datasets": "npz = own_dataset:npz_sites"}
PACKAGE |= {"models": "tiny = own_network:tiny", "noise": "polygon = own_noise:Polygon"}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the examples as a package that announces them, as pip would."""
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    points = "".join(f"[feda3i.{group}]\n{point}\n" for group, point in PACKAGE.items())
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    registry._points.cache_clear()
    yield
    registry._points.cache_clear()


def test_plug_ins_of_an_installed_package_have_names(installed, tmp_path):
    assert "mine" in METHODS.names()
    changes = ["model=tiny", "noise=polygon", "method=mine", *OPTIONS]
    recipe = feda3i.recipe.load(None, [*SMALL, *changes])
    assert feda3i.run(recipe, tmp_path / "run").scores["dice"] >= 0

    drawn = {"north": range(3), "south": range(3, 7), "test": range(7, 9)}
    cases = {name: [lesion(seed, 32, 32) for seed in seeds] for name, seeds in drawn.items()}
    for name, own in cases.items():
        images, masks = (np.stack(part) for part in zip(*own, strict=True))
        np.savez(tmp_path / f"{name}.npz", images=images, masks=masks.astype(np.uint8))
    data = lambda *more: load_data(
        feda3i.recipe.load(None, ["data=npz", f"data.path={tmp_path}", *more])
    )
    federation = data('data.classes=["mole"]')
    assert (federation.names(), federation.classes) == (["north", "south"], ("mole",))
    assert len(federation.test) == 2
    for name in federation.names():
        site = federation.site(name)
        np.testing.assert_array_equal(site.images, [image for image, _ in cases[name]])
        np.testing.assert_array_equal(site.masks, [mask for _, mask in cases[name]])
    with pytest.raises(RecipeError, match="no option 'pat', did you mean 'path'"):
        data("data.pat=1")
    (tmp_path / "test.npz").unlink()
    with pytest.raises(DataError, match=r"SITE\.npz files and test\.npz in .*, found \['north"):
        data()


@pytest.fixture
def nvflare(monkeypatch):
    """Stand in for what the aggregator takes from NVFlare, which is tried by hand (its job.py)."""
    places = {
        "nvflare.apis.fl_constant": {"FLMetaKey": SimpleNamespace(NUM_STEPS_CURRENT_ROUND="steps")},
        "nvflare.app_common.abstract.fl_model": {
            "FLModel": SimpleNamespace,
            "ParamsType": SimpleNamespace(DIFF="DIFF"),
        },
        "nvflare.app_common.aggregators.model_aggregator": {
            "ModelAggregator": type("ModelAggregator", (), {"info": print, "warning": print})
        },
    }
    for name, attributes in places.items():
        for part in accumulate(name.split("."), "{}.{}".format):
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
        vars(sys.modules[name]).update(attributes)


def test_nvflare_averages_as_fedavg_then_by_stages_within_the_bound(nvflare):
    aggregator = example("nvflare_app/feda3i_aggregator").FedA3IAggregator(
        ["a", "b"], max_share=0.4
    )

    def merged(surveys):
        aggregator.reset_stats()
        for k in range(4):
            params = {"a.w": np.full(2, k, np.float32), "b.w": np.full(2, k, np.float32)}
            meta = {"client_name": f"s{k}", "steps": 1 + k} | surveys.get(k, {})
            aggregator.accept_model(SimpleNamespace(params=params, params_type="FULL", meta=meta))
        return {name: value[0] for name, value in aggregator.aggregate_model().params.items()}

    assert merged({}) == pytest.approx({"a.w": 2.0, "b.w": 2.0})
    masks = np.pad(np.ones((2, 8, 8), np.uint8), ((0, 0), (4, 4), (4, 4)))
    surveys = {}
    for k, logit in enumerate((-3.0, -1.0, 1.0, 3.0)):
        found = feda3i.quality.survey_site([(np.full((2, 1, 16, 16), logit), masks)])
        surveys[k] = {"feda3i-survey": json.dumps(found.to_dict())}
    after = merged(surveys)
    assert after["a.w"] == pytest.approx(2.0)  # the first stage goes by cases alone
    cases = {f"s{k}": 1 + k for k in range(4)}
    weights = feda3i.weights_of(aggregator.surveys, cases, 2, max_share=0.4)
    assert after["b.w"] == pytest.approx(float(weights[:, 1] @ np.arange(4)), rel=1e-6)
    assert weights.max() <= 0.4 + 1e-12
