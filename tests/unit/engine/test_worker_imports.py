"""What a worker process may import."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path
from feda3i import recipe
from feda3i.engine.run import run
print(run(recipe.load(None, sys.argv[2:]), Path(sys.argv[1])).sha256)
"""


def trapped(folder, *names):
    """Return a working directory with files that no process may import."""
    here = folder / "here"
    here.mkdir()
    for name in names:
        (here / f"{name}.py").write_text(f"open({str(folder / 'PWNED')!r}, 'w')\n")
    return here


def started(folder, *arguments):
    """Run the script of the folder in its trapped working directory; return how it ended."""
    command = [sys.executable, str(folder / "start.py"), *arguments]
    cwd = folder / "here"
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert not (folder / "PWNED").exists()
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_workers_import_nothing_from_the_working_directory_but_find_plug_ins(tmp_path):
    here = trapped(tmp_path, "numpy", "json", "torch")
    (here / "by_file.py").write_text(
        "from feda3i.methods.base import Method\nclass Mine(Method):\n    pass\n"
    )
    (tmp_path / "beside.py").write_text(
        "from torch import nn\n"
        "def make(channels, classes):\n"
        "    return nn.Sequential(nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, classes, 1))\n"
    )
    (tmp_path / "start.py").write_text(SCRIPT)
    overrides = ["rounds=1", "data=synthetic-skin", "data.sites=2", "data.cases=2", "data.test=2"]
    overrides += ["data.size=32", "train.epochs=1", "method=by_file.py:Mine", "model=beside:make"]
    one, two = (
        started(tmp_path, str(tmp_path / f"run{n}"), *overrides, f"engine.workers={n}")
        for n in (1, 2)
    )
    assert one[0] == 0, one[2]
    assert one[:2] == two[:2]


PRESSED = """
import multiprocessing, os, signal
if multiprocessing.parent_process():  # a Ctrl-C during the import of torch
    os.kill(os.getpid(), signal.SIGINT)

def double(job):
    return 2 * job
"""

SPREAD = """
from pressed import double
from feda3i.pool import Pool
print(list(Pool(double, 2).map(range(3))))
"""


def test_a_worker_imports_nothing_from_there_runs_no_script_again_and_ignores_ctrl_c(tmp_path):
    trapped(tmp_path, "pickle", "struct", "signal", "numpy")
    (tmp_path / "pressed.py").write_text(PRESSED)
    (tmp_path / "start.py").write_text(SPREAD)
    # A worker that is still starting when all is done may complain on standard error.
    assert started(tmp_path)[:2] == (0, "[0, 2, 4]\n")
