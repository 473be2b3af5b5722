"""A failure is one message with an exit code; a bug says that it is one; nothing is a traceback."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from feda3i import cli, failures


@pytest.fixture
def failing(monkeypatch, capsys, tmp_path):
    """Return a function that lets ``feda3i list`` fail with an error, as if a command raised it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def call(error: BaseException, *arguments: str):
        def command():
            raise error

        monkeypatch.setattr("feda3i.commands.explain.names_by_kind", command)
        monkeypatch.setattr(sys, "argv", ["feda3i", "list", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return (stop.value.code, *capsys.readouterr())

    return call


def test_a_bug_says_that_it_is_one_and_where_the_details_lie(failing):
    code, out, err = failing(KeyError("rounds"))
    assert code == 1
    assert "this is a bug in feda3i: KeyError: 'rounds'" in err
    assert "report" in err
    assert "Traceback" not in out + err
    details = Path(re.search(r"details are in (\S+?);", err)[1])
    assert "Traceback" in details.read_text("utf-8")
    assert details.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "error", [RecursionError("too deep"), UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no")]
)
def test_no_kind_of_error_is_a_bare_traceback(failing, error):
    code, out, err = failing(error)
    assert code == 1
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 5.96 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"),
    ],
)
def test_want_of_memory_is_no_bug(failing, error):
    code, _, err = failing(error)
    assert code == 1
    assert "not enough memory" in err
    assert "bug" not in err


@pytest.mark.parametrize(
    ("command", "advice", "never"),
    [
        ("run", "feda3i resume", "finished cases"),
        ("predict", "repeat the command", "resume"),
        ("noise", "repeat the command", "resume"),
    ],
)
def test_a_full_disk_advises_what_the_command_can_do(command, advice, never):
    text, code = failures.message_of(OSError(errno.ENOSPC, "No space left on device"), command)
    assert code == 1
    assert "disk is full" in text
    assert advice in text
    assert never not in text


def test_the_command_is_found_among_options():
    assert failures.command_of(["--verbose", "prepare", "folder"]) == "prepare"


@pytest.mark.parametrize(
    "body", ["raise KeyError('x')", "import sys; sys.exit(0)", "def broken(:", "import nowhere_xyz"]
)
def test_a_plugin_that_does_not_load_is_named(body, tmp_path, monkeypatch, capsys):
    own = tmp_path / "own.py"
    own.write_text(body)
    monkeypatch.setattr(sys, "argv", ["feda3i", "explain", "method", f"{own}:Own"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert str(own) in err
    assert "Traceback" not in err
    assert "bug" not in err


def test_an_error_inside_a_plugin_names_file_and_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / "own.py"
    own.write_text(
        "from feda3i.core.cases import Federation\n"
        "def data(sites=1, cases=1, test=1, size=1) -> Federation:\n    return {}['cases']\n"
    )
    tiny = ["data.size=32", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["feda3i", "run", "demo", f"data={own}:data", *tiny])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    err = capsys.readouterr().err
    assert stop.value.code == 1
    assert f"{own} (line 3, data) failed: KeyError: 'cases'" in err
    assert "bug" not in err


FAILS_IN_FIT = '''"""Own: fails in training. Nothing but the usual leaves the site."""
from feda3i.methods.base import Method

class Own(Method):
    def fit(self, site):
        return {}["x"]
'''


@pytest.mark.parametrize("workers", [1, 2])
def test_a_method_that_fails_is_named_in_any_process(workers, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / "own.py"
    own.write_text(FAILS_IN_FIT)
    tiny = ["rounds=1", "data=synthetic-skin", "data.sites=2", "data.cases=2", "data.test=2"]
    tiny += ["data.size=32", "model.width=4", f"engine.workers={workers}", f"method={own}:Own"]
    arguments = ["feda3i", "run", "demo", *tiny, "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    err = capfd.readouterr().err
    assert stop.value.code == 1
    assert f"{own} (line 6, fit) failed: KeyError: 'x'" in err
    assert "Traceback" not in err


def test_check_method_reports_any_error_as_a_broken_promise(tmp_path, monkeypatch, capsys):
    own = tmp_path / "own.py"
    own.write_text(FAILS_IN_FIT)
    monkeypatch.setattr(sys, "argv", ["feda3i", "check", "method", f"{own}:Own"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out = capsys.readouterr().out
    assert stop.value.code == 1
    assert f"KeyError: 'x' in {own} (line 6, fit)" in out
    assert "1 promises kept, 9 broken" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("noise", "pdn", "--radius", "nan"),
        ("noise", "apply", "m", "n", "--mu", "1", "--sigma", "1", "--workers", "100000"),
        ("noise", "apply", "m", "n", "--mu", "nan", "--sigma", "1"),
    ],
)
def test_options_out_of_range_are_wrong_usage(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["feda3i", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_names_that_are_no_text_and_closed_pipes_do_no_harm():
    command = [sys.executable, "-m", "feda3i"]
    odd = subprocess.run([*command, "resume", b"/no/\xff"], capture_output=True)
    assert odd.returncode == 2  # an argument is wrong, as everywhere else
    assert b"/no/\\udcff" in odd.stderr
    closed = subprocess.run(
        f"{sys.executable} -m feda3i explain feda3i | true", shell=True, capture_output=True
    )
    assert b"Traceback" not in closed.stderr
    assert b"bug" not in closed.stderr


def test_names_from_outside_draw_nothing_on_a_terminal(tmp_path):
    name = "a\x1b[2J\u202egnp"
    done = subprocess.run(
        [sys.executable, "-m", "feda3i", "check", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    shown = done.stdout + done.stderr
    assert done.returncode != 0
    assert "a\\x1b[2J\\u202egnp" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
