"""The command line: help, hints, clear mistakes, kills, and what a new user meets first."""

import signal
import subprocess
import sys

import click
import pytest
import typer

import feda3i as package
from feda3i.cli import app
from feda3i.recipe import load
from feda3i.recipe.finding import built_in
from short import TINY
from waiting import HANG, hear_ctrl_c, wait_until


def _commands(command, path=()):
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _commands(inner, (*path, name))
    else:
        yield pytest.param(path, command, id=" ".join(path))


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
        assert line.removeprefix(f"  {metavar}").split()[0] != "[required]"


def test_everything_that_list_shows_is_explained(feda3i):
    assert feda3i("--version")[:2] == (0, f"feda3i {package.__version__}\n")
    _, out, _ = feda3i("list")
    rows = (line.partition(":") for line in out.splitlines() if ": " in line)
    names = [name for _, _, names in rows for name in names.strip().split(", ")]
    assert {"fedavg", "feda3i", "synthetic-skin", "unet", "demo", "contour"} <= set(names)
    for name in names:
        if not name.startswith("monai:"):
            assert feda3i("explain", name)[0] == 0, name


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["feda3i"], ["AAAI 2024", "answer to a survey: number of cases, inner_loss", "t1 = 10"]),
        (["model", "unet"], ["Stages: inc, down1, "]),
        (["demo"], ["noisy annotators", f"rounds = {load('demo').rounds}", "feda3i run demo"]),
    ],
)
def test_what_is_explained(feda3i, words, shown):
    code, out, _ = feda3i("explain", *words)
    assert (code, [text for text in shown if text not in out]) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("rnu",), 2, "'run'"),
        (("run",), 2, "Start with: feda3i run demo"),
        (("run", "nothing"), 2, "there is no recipe 'nothing'"),
        (("run", "demo", "method=fedavgg"), 2, "did you mean 'fedavg'"),
        (("run", "demo", "method=fedavg", "method.t1=4"), 2, "'fedavg' has no option 't1'"),
        (("run", "demo", "rounds=-3"), 2, "greater than or equal to 1"),
        (("run", "demo", "data=/no/where"), 2, "no folder '/no/where'"),
        (("run", "demo", "data=synthetic-skim"), 2, "did you mean 'synthetic-skin'"),
        (("resume", "/no/where"), 1, "found nothing at '/no/where'"),
        (("explain", "fedavgg"), 2, "did you mean 'fedavg'"),
        (("evaluate", "/no/where"), 1, "/no/where"),
    ],
)
def test_mistakes_get_one_clear_line_and_no_traceback(
    feda3i, tmp_path, monkeypatch, arguments, code, words
):
    monkeypatch.chdir(tmp_path)
    found, out, err = feda3i(*arguments)
    assert (found, words in err) == (code, True)
    assert err.lower().count("did you mean") <= 1
    assert "Traceback" not in out + err
    assert list(tmp_path.iterdir()) == []
    if arguments == ("run",):
        assert all(f"  {name} " in err for name in built_in())


def test_run_says_where_the_result_lies_and_quiet_is_quiet(feda3i, tmp_path):
    code, out, err = feda3i("run", "demo", *TINY, "method=fedavg", "--out", tmp_path / "r")
    assert (code, "round 2/2" in err) == (0, True)
    assert f"{tmp_path}/r/model.safetensors" in out
    code, again, err = feda3i("resume", tmp_path / "r", "--quiet")
    assert (code, err) == (0, "")
    assert again.split("sha256")[1].split()[0] == out.split("sha256")[1].split()[0]


def test_check_method_names_promises(feda3i, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        '"""Own: a method that says nothing of its wire."""\n'
        "from feda3i.methods.base import Method\n"
        "class Own(Method):\n"
        "    fit = lambda self, site: {**super().fit(site), 'secret': 1.0}\n"
    )
    code, out, _ = feda3i("check", "method", f"{own}:Own")
    assert (code, "which the method does not declare on its wire" in out) == (1, True)


DIES_IN_ROUND_4 = """
import os, signal
from feda3i import cli
from feda3i.commands import run
from feda3i.engine.console import Silent

class Dies(Silent):
    rounds = 0
    def site(self, answered, asked):
        if self.rounds == 3 and answered == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    def round(self, event):
        self.rounds = event["round"]

run.listener = lambda quiet: Dies()
cli.main()
"""


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_model(feda3i, tmp_path):
    arguments = ["run", "demo", *TINY, "method=fedavg", "rounds=6", "data.cases=8", "--out"]
    whole = feda3i(*arguments, tmp_path / "whole")[1]
    path = tmp_path / "killed"
    killed = subprocess.run([sys.executable, "-c", DIES_IN_ROUND_4, *arguments, str(path)])
    assert killed.returncode == -signal.SIGKILL
    assert not (path / "DONE").exists()
    code, out, _ = feda3i("resume", path)
    assert (code, out.split("sha256")[1].split()[0] in whole) == (0, True)


def test_ctrl_c_ends_with_the_command_that_resumes(tmp_path):
    path = tmp_path / "run"
    command = [sys.executable, "-m", "feda3i", "run", "demo", *TINY, "method=fedavg"]
    process = subprocess.Popen(
        [*command, "rounds=500", "--out", str(path)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    events = path / "events.jsonl"

    def has_begun():
        assert process.poll() is None, process.stderr.read()
        return events.exists() and '"round":2' in events.read_text("utf-8").replace(" ", "")

    wait_until(has_begun)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG)
    said = process.returncode, f"feda3i resume {path}" in err, "Traceback" in err
    assert said == (130, True, False), err
