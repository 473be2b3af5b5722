"""A pipe among the files of a run folder is refused: reading it would wait for ever."""

import os
import shutil
import signal

import pytest

from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RunError

FILES = ("manifest.json", "recipe.toml", "events.jsonl", "DONE", "model.safetensors", ".lock")


@pytest.fixture
def guarded():
    """End the test instead of waiting for a pipe if the check is lost."""

    def stop(_number, _frame):
        raise AssertionError("waits for a pipe")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("to_write", [False, True])
@pytest.mark.parametrize("name", [*FILES, "state/checkpoint.bin"])
def test_a_pipe_is_refused_and_named(finished, guarded, tmp_path, name, to_write):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(RunError, match=f"found a pipe or a device: '{folder / name}'"):
        RunFolder.open(folder, to_write=to_write)
