import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from short import TINY
from waiting import HANG, hear_ctrl_c, wait_until


def test_run_says_where_the_result_lies(feda3i, tmp_path):
    code, out, err = feda3i("run", "demo", *TINY, "method=fedavg", "--out", tmp_path / "r")
    assert code == 0
    assert "sha256" in out
    assert f"{tmp_path}/r/model.safetensors" in out
    assert "round 2/2" in err


def test_quiet_is_quiet(feda3i, finished):
    code, out, err = feda3i("resume", finished, "--quiet")
    assert code == 0
    assert err == ""
    assert "sha256" in out


def test_list_names_everything(feda3i):
    code, out, _ = feda3i("list")
    assert code == 0
    for name in ("fedavg", "feda3i", "synthetic-skin", "unet", "demo", "contour"):
        assert name in out


def test_explain_shows_card_wire_and_stages(feda3i):
    code, out, _ = feda3i("explain", "feda3i")
    assert code == 0
    assert "AAAI 2024" in out
    assert "answer to a survey: number of cases, inner_loss" in out
    assert "t1 = 10" in out
    code, out, _ = feda3i("explain", "model", "unet")
    assert "Stages: inc, down1, down2, down3, down4, up1, up2, up3, up4, outc" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "nothing"), 2, "there is no recipe 'nothing'"),
        (("run", "demo", "method=fedavgg"), 2, "did you mean 'fedavg'"),
        (("run", "demo", "rounds=-3"), 2, "greater than or equal to 1"),
        (("run", "demo", "data.sites=0"), 2, "sites"),
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
    assert found == code
    assert words in err
    assert "Traceback" not in out + err
    assert list(tmp_path.iterdir()) == []


def test_predict_keeps_the_resolution_of_each_image(feda3i, finished, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    draw = np.random.default_rng(0)
    for name, shape in (("wide.png", (40, 90, 3)), ("tall.jpg", (120, 64, 3))):
        Image.fromarray(draw.integers(0, 255, shape, dtype=np.uint8)).save(images / name)
    code, out, _ = feda3i("predict", finished, images, "--out", tmp_path / "masks", "--overlay")
    assert code == 0
    assert "2 masks" in out
    with Image.open(tmp_path / "masks" / "wide.png") as mask:
        assert mask.size == (90, 40)
        assert set(np.unique(np.asarray(mask))) <= {0, 255}
    with Image.open(tmp_path / "masks" / "tall_overlay.png") as overlay:
        assert overlay.size == (64, 120)


def test_check_method_names_promises(feda3i, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        '"""Own: a method that says nothing of its wire."""\n'
        "from feda3i.methods.base import Method\n"
        "class Own(Method):\n"
        "    def fit(self, site):\n"
        "        return {**super().fit(site), 'secret': 1.0}\n"
    )
    code, out, _ = feda3i("check", "method", f"{own}:Own")
    assert code == 1
    assert "which the method does not declare on its wire" in out


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


def test_a_killed_run_resumes_to_the_same_model(feda3i, tmp_path):
    arguments = ["run", "demo", *TINY, "method=fedavg", "rounds=6", "data.cases=8", "--out"]
    code, whole, _ = feda3i(*arguments, tmp_path / "whole")
    assert code == 0
    path = tmp_path / "killed"
    killed = subprocess.run([sys.executable, "-c", DIES_IN_ROUND_4, *arguments, str(path)])
    assert killed.returncode == -signal.SIGKILL
    assert not (path / "DONE").exists()
    code, out, _ = feda3i("resume", path)
    assert code == 0
    sha = [line for line in out.splitlines() if line.startswith("sha256")]
    assert sha[0] in whole


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
    assert process.returncode == 130, err
    assert f"feda3i resume {path}" in err
    assert "Traceback" not in err
