"""Fixtures that several tests share."""

import os
import shutil
import sys

# Two test processes on two cores: a team of threads each would stall the other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


import pytest
from hypothesis import settings

from feda3i import cli, recipe, testing
from feda3i.synthetic import federations
from listeners import StopAfter
from short import TINY

# The same examples everywhere and every time: what CI finds must have been found here before.
# "make odd" and the scripts of tests/odd look for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def drawn_once():
    """Draw a synthetic federation once: every site of a network run in one process asks for it."""
    draw, kept = federations._federation, {}

    def remembered(*options, **more):
        *plain, case = options[:8]
        key = repr((plain, options[8:], more, [cell.cell_contents for cell in case.__closure__]))
        kept[key] = kept.get(key) or draw(*options, **more)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federations, "_federation", remembered)
        yield


@pytest.fixture
def federation():
    return testing.tiny_federation()


@pytest.fixture(scope="session")
def tiny_recipe():
    """Return a function that makes a recipe of a few seconds on synthetic cases."""
    more = ["rounds=3", "data.sites=3", "data.cases=3", "data.test=4"]
    return lambda *overrides: recipe.load(None, [*TINY, *more, *overrides])


@pytest.fixture
def feda3i(monkeypatch, capsys):
    """Return a function that runs a command and returns exit code, output and errors."""

    def call(*arguments: str):
        monkeypatch.setattr(sys, "argv", ["feda3i", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return (code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return the folder of a finished tiny run; who changes it takes a copy."""
    from feda3i.engine.run import run

    path = tmp_path_factory.mktemp("cli") / "run"
    run(recipe.load("demo", [*TINY, "method=fedavg", "noise=none"]), path)
    return path


@pytest.fixture
def copied(finished, tmp_path):
    """Return a copy of the finished run."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture(scope="session")
def broken_off(tiny_recipe, tmp_path_factory):
    """Return the folder of a run that was broken off after the first of its three rounds."""
    from feda3i.engine.run import run

    path = tmp_path_factory.mktemp("broken") / "run"
    with pytest.raises(KeyboardInterrupt):
        run(tiny_recipe(), path, listener=StopAfter())
    return path


@pytest.fixture
def broken(broken_off, tmp_path):
    """Return a copy of the run that was broken off."""
    return shutil.copytree(broken_off, tmp_path / "broken")
