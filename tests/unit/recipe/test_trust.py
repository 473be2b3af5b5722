"""Files are data: what a model or a run folder names is never executed without the user's word."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tomli_w
from safetensors import safe_open
from safetensors.torch import save_file

from data_files import save
from feda3i import recipe
from feda3i.engine.model_file import read_model
from feda3i.errors import RecipeError, RunError
from feda3i.methods.base import make_method
from feda3i.models import build
from feda3i.noise import Annotator, build_model
from feda3i.recipe import finding
from feda3i.simulation.federation import load_data
from short import TINY

EVIL = "subprocess:getoutput"
SECTIONS = ("data", "noise", "model", "method")


@pytest.fixture
def pictures(tmp_path):
    save(tmp_path / "pictures" / "a.png", np.zeros((32, 32, 3), np.uint8))
    return tmp_path / "pictures"


def changed_model(finished, path, change):
    """Write a copy of a model with other metadata."""
    with safe_open(finished / "model.safetensors", framework="pt") as file:
        about = json.loads(file.metadata()["feda3i"])
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata={"feda3i": json.dumps({**about, **change(about)})})
    return path


def poisoned_run(finished, path, section, code):
    """Copy a run, with a recipe that names code."""
    shutil.copytree(finished, path)
    values = finding.read_toml(path / "recipe.toml")
    values[section] = code
    (path / "recipe.toml").write_text(tomli_w.dumps(values))
    manifest = json.loads((path / "manifest.json").read_text("utf-8"))
    manifest["recipe_sha256"] = recipe.validate(values).digest()
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.mark.parametrize("section", SECTIONS)
def test_files_from_others_run_no_command(feda3i, finished, pictures, tmp_path, section):
    target = tmp_path / "PWNED"
    code = {"name": EVIL, "cmd": f"touch {target}"}
    received = poisoned_run(finished, tmp_path / "run", section, code)
    commands = [("evaluate", received), ("resume", received)]
    if section in ("model", "method"):
        poison = lambda about: {"recipe": {**about["recipe"], section: code}}
        model = changed_model(finished, tmp_path / "m.safetensors", poison)
        commands += [("predict", model, pictures, "--out", tmp_path / "o"), ("evaluate", model)]
    for command in commands:
        if command[0] == "resume":
            (received / "DONE").unlink()
        status, out, err = feda3i(*command)
        assert (status, f"{section} '{EVIL}'" in err, "--trust-code" in err) == (1, True, True)
        assert "Traceback" not in out + err
    assert not target.exists()


def test_every_kind_of_plug_in_has_a_type():
    with pytest.raises(RecipeError, match="subclass of Method"):
        make_method(EVIL, {"cmd": "true"})
    with pytest.raises(RecipeError, match=r"-> nn\.Module"):
        build(EVIL, channels=1, classes=1, shape=(32, 32), options={"cmd": "true"})
    with pytest.raises(RecipeError, match="noise model 'subprocess:getoutput': expected a class"):
        build_model(EVIL, Annotator(1.0, 1.0), {"cmd": "true"})
    with pytest.raises(RecipeError, match="-> Federation"):
        load_data(recipe.validate({"data": {"name": EVIL, "cmd": "true"}}))


NETWORK = """
from torch import nn
print("LOADED")
def make(channels, classes):
    return nn.Sequential(nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, classes, 1))
"""


def test_run_names_the_file_and_trusted_code_works_to_the_end(feda3i, pictures, tmp_path):
    file = tmp_path / "net.py"
    file.write_text(NETWORK)
    small = [key for key in TINY if not key.startswith("model.")]
    out, own = tmp_path / "run", ("noise=none", "method=fedavg", f"model={file}:make")
    code, _, err = feda3i("run", "demo", *small, *own, "--out", out)
    assert (code, f"model: runs the code of {file}" in err) == (0, True)
    target = tmp_path / "masks"
    code, said, err = feda3i("predict", out, pictures, "--out", target)
    assert (code, "--trust-code" in err, "LOADED" in said) == (1, True, False)
    code, said, err = feda3i("predict", out, pictures, "--out", target, "--trust-code")
    assert (code, str(file) in err) == (0, True), err
    assert (target / "a.png").exists()


def test_the_file_of_a_module_is_found_without_importing_it(tmp_path):
    package = tmp_path / "loud" / "inner.py"
    package.parent.mkdir()
    (package.parent / "__init__.py").write_text("raise SystemExit('imported')")
    package.write_text("raise SystemExit('imported')")
    code = (
        "from feda3i import recipe\nfrom feda3i.recipe import trust\n"
        "names = {'method': {'name': 'loud.inner:M'}, 'model': {'name': 'os:system'}}\n"
        "r = recipe.validate(names)\n"
        "print(*[c.file for c in trust.named_code(r)])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert str(package) in done.stdout
    assert "os.py" in done.stdout


@pytest.mark.parametrize(
    "change",
    [{"shape": [10**12] * 2}, {"shape": "x"}, {"channels": -1}, {"classes": None}, {"recipe": 7}],
)
def test_odd_metadata_are_an_error_of_ours(finished, tmp_path, change):
    with pytest.raises(RunError):
        read_model(changed_model(finished, tmp_path / "odd.safetensors", lambda _: change))
