import json

import numpy as np
import pytest
from typer.testing import CliRunner

from data_files import breast_tree, isic_tree, plain_tree, save
from feda3i.commands.prepare import app
from feda3i.errors import RecipeError


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_isic_and_breast_say_what_is_missing_and_write_the_rest(tmp_path):
    for name, make in (("isic2017", isic_tree), ("breast", breast_tree)):
        out = tmp_path / f"{name}-out"
        result = run(name, make(tmp_path / name), out, "--size", 24, "--workers", 1)
        assert result.exit_code == 1, result.output  # miniatures are incomplete
        assert "set incomplete" in result.output
        assert json.loads((out / "manifest.json").read_text())["options"]["size"] == 24


def test_a_clean_folder_ends_with_zero(tmp_path):
    plain_tree(tmp_path / "in", 4)
    result = run("folder", tmp_path / "in", tmp_path / "out", "--size", 24, "--workers", 1)
    assert result.exit_code == 0, result.output
    assert "3 training and 1 test cases" in result.output
    assert "SHA-256" in result.output


def test_options_reach_the_manifest(tmp_path):
    plain_tree(tmp_path / "in" / "north", 4)
    changes = ["--aspect", "pad", "--channels", 1, "--classes", "mole, scar", "--bits", 12]
    changes += ["--window", "-100,300", "--drop-empty", "--test-share", 0.5, "--per-site"]
    save(tmp_path / "in" / "north" / "masks" / "case0.png", np.ones((40, 48), np.uint8))
    result = run("folder", tmp_path / "in", tmp_path / "out", "--workers", 1, *changes)
    assert result.exit_code == 1  # 0/255 is not 0..2
    assert "mask values: 3" in result.output
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["share"] == 0.5
    assert manifest["options"] == {
        "aspect": "pad",
        "axis": 2,
        "bits": 12,
        "channels": 1,
        "classes": ["mole", "scar"],
        "keep_empty": False,
        "size": 256,
        "volumes": False,
        "window": [-100.0, 300.0],
    }


def test_wrong_options_are_usage_errors(tmp_path):
    plain_tree(tmp_path / "in", 2)
    result = run("folder", tmp_path / "in", tmp_path / "out", "--window", "dark")
    assert isinstance(result.exception, RecipeError)
    assert run("folder", tmp_path / "in", tmp_path / "out", "--aspect", "bend").exit_code == 2
    result = run("folder", tmp_path / "in", tmp_path / "out", "--channels", 2)
    assert isinstance(result.exception, RecipeError)


@pytest.mark.parametrize("name", ["isic2017", "breast", "folder"])
def test_help_is_there(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "--size" in result.output
