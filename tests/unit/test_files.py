import os
import stat
from pathlib import Path

import numpy as np
import pytest

from feda3i.errors import RecipeError
from feda3i.files import write_array, write_file, write_png


def test_a_failed_write_leaves_the_old_file_and_an_empty_path_is_none(tmp_path, monkeypatch):
    path = tmp_path / "state"
    write_file(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(RecipeError, match="name of a file"):
        write_file(Path(""), b"")


@pytest.mark.parametrize("durable", [True, False])
def test_a_secret_is_never_readable_by_others_and_durable_files_are_synced(
    tmp_path, monkeypatch, durable
):
    seen, synced, replace = [], [], os.replace
    mode_of = lambda part: seen.append(stat.S_IMODE(os.stat(part).st_mode))
    monkeypatch.setattr("os.replace", lambda part, path: mode_of(part) or replace(part, path))
    monkeypatch.setattr("os.fsync", synced.append)
    write_file(tmp_path / "key", b"secret", durable=durable, mode=0o600)
    assert (seen, len(synced)) == ([0o600], durable)
    assert (tmp_path / "key").read_bytes() == b"secret"


@pytest.mark.parametrize("write", [write_png, write_array])
def test_pixels_are_for_the_user_alone(tmp_path, write):
    write(tmp_path / "masks" / "case", np.zeros((4, 4), np.uint8))
    assert stat.S_IMODE((tmp_path / "masks" / "case").stat().st_mode) == 0o600
