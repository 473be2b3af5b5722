"""How far it is from the command line to the backward pass."""

import traceback
from pathlib import Path

import feda3i as package
from feda3i.core.stepper import Stepper
from short import TINY

MOST = 13


def test_few_frames_lie_between_the_command_and_a_training_step(feda3i, monkeypatch, tmp_path):
    ours, frames = str(Path(package.__file__).parent), []

    def take(self, loss):
        stack = traceback.extract_stack()[:-1]
        frames.append([f.name for f in stack if f.filename.startswith(ours)])
        loss.backward()

    monkeypatch.setattr(Stepper, "take", take)
    assert feda3i("run", "demo", *TINY, "--out", tmp_path / "run", "--quiet")[0] == 0
    assert frames[0][0] == "main"
    assert frames[0][-1] == "train"
    assert len(frames[0]) + 1 <= MOST, " > ".join(frames[0])  # one more for the step itself
