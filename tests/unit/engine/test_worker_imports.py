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


@pytest.mark.slow
def test_workers_import_nothing_from_the_working_directory_but_find_plug_ins(tmp_path):
    here, scripts = trapped(tmp_path, "numpy", "json", "torch"), tmp_path / "scripts"
    scripts.mkdir()
    (here / "by_file.py").write_text(
        "from feda3i.methods.base import Method\nclass Mine(Method):\n    pass\n"
    )
    (scripts / "beside.py").write_text(
        "from torch import nn\n"
        "def make(channels, classes):\n"
        "    return nn.Sequential(nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, classes, 1))\n"
    )
    (scripts / "start.py").write_text(SCRIPT)
    overrides = ["rounds=1", "data=synthetic-skin", "data.sites=2", "data.cases=2", "data.test=2"]
    overrides += ["data.size=32", "train.epochs=1", "method=by_file.py:Mine", "model=beside:make"]
    shas = []
    for workers in (1, 2):
        arguments = [str(tmp_path / f"run{workers}"), *overrides, f"engine.workers={workers}"]
        done = subprocess.run(
            [sys.executable, str(scripts / "start.py"), *arguments],
            cwd=here,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        shas.append(done.stdout.strip())
    assert shas[0] == shas[1]
    assert not (tmp_path / "PWNED").exists()


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
    here = trapped(tmp_path, "pickle", "struct", "signal", "numpy")
    (tmp_path / "pressed.py").write_text(PRESSED)
    (tmp_path / "start.py").write_text(SPREAD)
    command = [sys.executable, str(tmp_path / "start.py")]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 2, 4]\n", "")
    assert not (tmp_path / "PWNED").exists()
