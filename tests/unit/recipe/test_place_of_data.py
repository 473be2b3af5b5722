"""Where the data of a run lie, and whether they are still the same."""

import shutil
import stat
from dataclasses import replace

import pytest

import feda3i.simulation.federation as simulation
from data_files import plain_tree, tree_bytes
from feda3i.engine.run import resume, run
from feda3i.errors import RunError
from feda3i.recipe import load
from listeners import StopAfter

LOAD = simulation.load_data


def test_a_relative_path_is_that_of_the_first_working_directory(tiny_recipe, tmp_path, monkeypatch):
    plain_tree(tmp_path / "one" / "data", 16)
    plain_tree(tmp_path / "two" / "data", 20)
    monkeypatch.chdir(tmp_path / "one")
    small = tiny_recipe("data=data", "data.size=32", "rounds=2")
    whole = run(small, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(small, tmp_path / "run", listener=StopAfter())
    monkeypatch.chdir(tmp_path / "two")
    assert resume(tmp_path / "run").sha256 == whole.sha256


def test_the_place_of_the_data_is_in_one_private_file(tiny_recipe, tmp_path, feda3i):
    tree = plain_tree(tmp_path / "st-elsewhere", 16)
    small = ["rounds=1", "data.size=32"]
    path = run(tiny_recipe(f"data={tree}", *small), tmp_path / "run").path
    named = [name for name, data in tree_bytes(path).items() if b"st-elsewhere" in data]
    assert named == ["local.json"]
    assert stat.S_IMODE((path / "local.json").stat().st_mode) == 0o600
    # The recorded recipe can still be repeated here, and elsewhere with another place.
    same = resume(path).sha256
    assert run(load(path / "recipe.toml"), tmp_path / "again").sha256 == same
    copy = shutil.copy(path / "recipe.toml", tmp_path / "copy.toml")
    place = shutil.move(tree, tmp_path / "other")
    moved = run(load(copy, [f"data.path={place}"]), tmp_path / "moved")
    assert moved.sha256 == same
    assert feda3i("evaluate", moved.path)[0] == 0


def changed_by(change, federation):
    if change == "test sha256":
        masks = federation.test.masks.copy()
        masks[0, 3, 3] ^= 1
        return replace(federation, test=replace(federation.test, masks=masks))
    first, second, *_ = federation.names()
    sites = federation.sites
    return replace(federation, sites={**sites, first: sites[second], second: sites[first]})


def test_changed_test_masks_and_other_sites_are_noticed(tiny_recipe, tmp_path, feda3i, monkeypatch):
    tree = plain_tree(tmp_path / "data", 16)
    small = tiny_recipe(f"data={tree}", "data.size=32", "data.cache=false", "rounds=2")
    path, whole = tmp_path / "run", tmp_path / "whole"
    with pytest.raises(KeyboardInterrupt):
        run(small, path, listener=StopAfter())
    run(small, whole)
    for change in ("sites", "test sha256"):
        with monkeypatch.context() as patch:
            patch.setattr(simulation, "load_data", lambda r, c=change: changed_by(c, LOAD(r)))
            with pytest.raises(RunError, match=change):
                resume(path)
            code, _, err = feda3i("evaluate", whole)
            assert (code, change in err) == (1, True) or change == "sites"
    assert resume(path).sha256 == resume(whole).sha256
