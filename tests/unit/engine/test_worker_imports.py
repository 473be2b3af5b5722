"""What a worker process may import."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

SCRIPT = """
import sys
from pathlib import Path
from feda3i import recipe
from feda3i.engine.run import run
print(run(recipe.load(None, sys.argv[2:]), Path(sys.argv[1])).sha256)
"""


@pytest.mark.slow
def test_workers_import_nothing_from_the_working_directory_but_find_plug_ins(tmp_path):
    here, scripts = tmp_path / "here", tmp_path / "scripts"
    here.mkdir()
    scripts.mkdir()
    for name in ("numpy", "json", "torch"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'PWNED')!r}, 'w')\n")
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


COMMAND = """
import sys
from feda3i.cli import main
if __name__ == "__main__":
    main()
"""


def test_processes_that_draw_import_nothing_from_there_either(tmp_path):
    here = tmp_path / "here"
    for kind in ("images", "masks"):
        for number in range(4):
            pixels = np.zeros((32, 32), np.uint8)
            pixels[8:20, 8:20] = 255
            (here / "data" / kind).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(here / "data" / kind / f"c{number}.png")
    for name in ("pickle", "struct", "signal", "numpy"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'PWNED')!r}, 'w')\n")
    script = tmp_path / "feda3i.sh.py"  # as the installed command: its folder is not this one
    script.write_text(COMMAND)
    arguments = ("noise", "apply", "data/masks", "out", "--mu=2", "--sigma=1", "--workers=2")
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
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
from feda3i.pool import ordered_map
print(list(ordered_map(double, range(3), 2)))
"""


def test_ctrl_c_while_a_worker_imports_makes_no_noise_and_no_script_runs_twice(tmp_path):
    (tmp_path / "pressed.py").write_text(PRESSED)
    (tmp_path / "start.py").write_text(SPREAD)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "start.py")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 2, 4]\n", "")
