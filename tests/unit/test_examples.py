"""The scripts of ``examples/``: what each shows, and the same plug-ins announced by a package."""

import importlib.util
from pathlib import Path

import pytest

import feda3i
from feda3i import registry
from feda3i.errors import DataError
from feda3i.methods import REGISTRY as METHODS

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["rounds=1", "data.size=32", "data.sites=2", "data.cases=2", "data.test=2"]
SMALL += ["train.epochs=1", "engine.workers=1", "method=fedavg"]


def example(name):
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_arrays_are_audited_and_put_right():
    found = example("audit_arrays").main()
    assert [found[site][0] for site in ("north", "south")] == ["larger", "smaller"]
    assert found["north"][1] > 0 > found["south"][1]


def test_masks_of_tensors_and_pipelines_get_noise():
    found = example("noisy_masks").main()
    assert found["small"] < found["given"] < found["large"]
    assert found["in a pipeline"] > found["given"]


@pytest.mark.parametrize(
    ("change", "attribute"),
    [
        ("model={}/own_network.py:tiny", "model.width=4"),
        ("noise={}/own_noise.py:Polygon", "noise.corners=5"),
        ("method={}/own_method.py:MyMethod", "method.power=3"),
    ],
)
def test_plug_ins_are_named_by_their_file(change, attribute, tmp_path):
    setting = ["noise.setting=skin-ns"] if change.startswith("noise") else []
    recipe = feda3i.recipe.load(None, [*SMALL, change.format(EXAMPLES), *setting, attribute])
    result = feda3i.run(recipe, tmp_path / "run")
    assert (result.path / "DONE").exists()


PACKAGE = """
[feda3i.methods]
mine = own_method:MyMethod
[feda3i.datasets]
npz = own_dataset:npz_sites
[feda3i.models]
tiny = own_network:tiny
[feda3i.noise]
polygon = own_noise:Polygon
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the examples as a package that announces them, as pip would."""
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    registry._points.cache_clear()
    yield
    registry._points.cache_clear()


def test_plug_ins_of_an_installed_package_have_names(installed, tmp_path):
    assert "mine" in METHODS.names()
    changes = ["model=tiny", "model.width=4", "noise=polygon", "noise.setting=skin-ns"]
    recipe = feda3i.recipe.load(None, [*SMALL, *changes, "method=mine", "method.power=3"])
    assert feda3i.run(recipe, tmp_path / "run").scores["dice"] >= 0
    with pytest.raises(DataError, match=r"expected SITE\.npz files and test\.npz"):
        feda3i.run(
            feda3i.recipe.load(None, ["data=npz", f"data.path={tmp_path}", "noise=none"]),
            tmp_path / "other",
        )
