"""A failure is one message with an exit code; a bug says that it is one; nothing is a traceback."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from short import TINY


@pytest.fixture
def run_plugin(feda3i, tmp_path, monkeypatch):
    """Return a function that writes a plug-in and runs a command that names it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / "own.py"

    def call(body, *arguments):
        own.write_text(body)
        code, out, err = feda3i(*(str(a).replace("OWN", str(own)) for a in arguments))
        assert "Traceback" not in out + err
        assert "bug" not in out + err
        return code, out + err.replace(str(own), "OWN")

    return call


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("rounds"), "this is a bug in feda3i: KeyError: 'rounds'"),
        (RecursionError("too deep"), "a bug in feda3i: RecursionError"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no"), "a bug in feda3i: UnicodeEncodeError"),
        (MemoryError("Unable to allocate 5.96 GiB"), "not enough memory"),
        (RuntimeError("can't allocate memory: you tried to allocate 64 bytes"), "not enough mem"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk is full; free some space, then"),
        (OSError(errno.EACCES, "Permission denied", "/x"), "Permission denied: /x"),
    ],
)
def test_every_error_is_one_message(feda3i, monkeypatch, tmp_path, error, words):
    def fail():
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("feda3i.commands.explain.names_by_kind", fail)
    code, out, err = feda3i("list")
    assert code == 1
    assert words in err
    assert "Traceback" not in out + err
    if "bug" in words:  # the details are for the user's eyes
        details = Path(re.search(r"details are in (\S+?);", err)[1])
        assert "Traceback" in details.read_text("utf-8")
        assert details.stat().st_mode & 0o077 == 0
    else:
        assert "bug" not in err


@pytest.mark.parametrize(
    "body", ["raise KeyError('x')", "import sys; sys.exit(0)", "def broken(:", "import nowhere_xyz"]
)
def test_a_plugin_that_does_not_load_is_named(run_plugin, body):
    code, said = run_plugin(body, "explain", "method", "OWN:Own")
    assert code == 2
    assert "OWN" in said


def test_an_error_inside_a_plugin_names_file_and_line(run_plugin, tmp_path):
    body = (
        "from feda3i.core.cases import Federation\n"
        "def data(sites=1, cases=1, test=1, size=1) -> Federation:\n    return {}['cases']\n"
    )
    code, said = run_plugin(body, "run", "demo", "data=OWN:data", "--out", tmp_path / "run")
    assert code == 1
    assert "OWN (line 3, data) failed: KeyError: 'cases'" in said


FAILS_IN_FIT = '''"""Own: fails in training. Nothing but the usual leaves the site."""
from feda3i.methods.base import Method

class Own(Method):
    def fit(self, site):
        return {}["x"]
'''


@pytest.mark.parametrize("workers", [1, 2])
def test_a_method_that_fails_is_named_in_any_process(run_plugin, tmp_path, workers):
    tiny = [*TINY, f"engine.workers={workers}", "method=OWN:Own", "--out", tmp_path / "run"]
    code, said = run_plugin(FAILS_IN_FIT, "run", "demo", *tiny)
    assert code == 1
    assert "OWN (line 6, fit) failed: KeyError: 'x'" in said


def test_check_method_reports_any_error_as_a_broken_promise(run_plugin, tmp_path):
    code, said = run_plugin(FAILS_IN_FIT, "check", "method", "OWN:Own")
    assert code == 1
    assert f"KeyError: 'x' in {tmp_path / 'own.py'} (line 6, fit)" in said
    assert "1 promises kept, 9 broken" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("noise", "pdn", "--radius", "nan"),
        ("noise", "apply", "m", "n", "--mu", "1", "--sigma", "1", "--workers", "100000"),
        ("noise", "apply", "m", "n", "--mu", "nan", "--sigma", "1"),
    ],
)
def test_options_out_of_range_are_wrong_usage(feda3i, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = feda3i(*arguments)
    assert code == 2
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_names_from_outside_and_closed_pipes_do_no_harm(tmp_path):
    command = [sys.executable, "-m", "feda3i"]
    odd = subprocess.run([*command, "resume", b"/no/\xff"], capture_output=True)
    assert odd.returncode == 2  # an argument is wrong, as everywhere else
    assert b"/no/\\udcff" in odd.stderr
    closed = subprocess.run(f"{' '.join(command)} explain feda3i | true", shell=True, stderr=-1)
    assert b"Traceback" not in closed.stderr
    assert b"bug" not in closed.stderr
    name = tmp_path / "a\x1b[2J\u202egnp"  # would turn letters and clear a terminal
    done = subprocess.run([*command, "check", name], capture_output=True, text=True)
    assert done.returncode != 0
    assert "a\\x1b[2J\\u202egnp" in done.stderr
    assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
