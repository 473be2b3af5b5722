"""What a new user meets first: help, version, hints, the list of recipes."""

import click
import pytest
import typer

import feda3i as package
from feda3i.cli import app
from feda3i.recipe import load
from feda3i.recipe.finding import built_in


def _commands(command, path=()):
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _commands(inner, (*path, name))
    else:
        yield pytest.param(path, command, id=" ".join(path))


def test_version(feda3i):
    assert feda3i("--version")[:2] == (0, f"feda3i {package.__version__}\n")


@pytest.mark.parametrize(("path", "command"), list(_commands(typer.main.get_command(app))))
def test_help_tells_every_argument_once_and_without_escapes(feda3i, path, command):
    code, out, _ = feda3i(*path, "--help")
    assert code == 0
    assert "\\" not in out
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    assert out.count("rguments:\n") == bool(arguments)
    for argument in arguments:
        metavar = argument.make_metavar(click.Context(command))
        line = next(line for line in out.splitlines() if line.startswith(f"  {metavar} "))
        words = line.removeprefix(f"  {metavar}").split()
        assert words
        assert words[0] != "[required]"


def test_a_misspelt_command_gets_one_hint(feda3i):
    code, _, err = feda3i("rnu")
    assert code == 2
    assert err.count("Did you mean") == 1
    assert "'run'" in err


def test_run_without_a_recipe_lists_them_all(feda3i):
    code, _, err = feda3i("run")
    assert code == 2
    for name in built_in():
        assert f"  {name} " in err
    assert "feda3i run demo" in err


@pytest.mark.parametrize("words", [("demo",), ("recipe", "demo")])
def test_a_recipe_is_explained(feda3i, words):
    code, out, _ = feda3i("explain", *words)
    assert code == 0
    assert "noisy annotators" in out
    assert f"rounds = {load('demo').rounds}" in out
    assert "feda3i run demo" in out


def test_everything_that_list_shows_is_explained(feda3i):
    _, out, _ = feda3i("list")
    rows = (line.partition(":") for line in out.splitlines() if ": " in line)
    names = [name for _, _, names in rows for name in names.strip().split(", ")]
    assert len(names) > 30
    for name in names:
        if not name.startswith("monai:"):
            assert feda3i("explain", name)[0] == 0, name
