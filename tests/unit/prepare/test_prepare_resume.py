import os
import signal
import subprocess
import sys

import pytest

from data_files import plain_tree, save_pair, tree_bytes
from feda3i.data.folder import load_folder
from feda3i.errors import DataError
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options
from feda3i.reading.prepared import JOURNAL
from waiting import wait_until

OPTIONS = Options(size=24)


@pytest.fixture
def source(tmp_path):
    tree = plain_tree(tmp_path / "in", 12)
    (tree / "images" / "case5.png").write_bytes(b"broken")
    return tree


@pytest.fixture
def expected(tmp_path, source):
    prepare_folder(source, tmp_path / "reference", options=OPTIONS, workers=1)
    return tree_bytes(tmp_path / "reference")


def stop_after(count):
    def progress(done, total):
        if done == count:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("count", [1, 6, 12])
def test_interrupted_and_repeated_gives_the_same_bytes(tmp_path, source, expected, count):
    with pytest.raises(KeyboardInterrupt):
        prepare_folder(
            source, tmp_path / "out", options=OPTIONS, workers=1, progress=stop_after(count)
        )
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(DataError, match="half prepared"):
        load_folder(tmp_path / "out")
    prepare_folder(source, tmp_path / "out", options=OPTIONS, workers=1)
    assert tree_bytes(tmp_path / "out") == expected


def test_torn_journal_line_and_damaged_case_are_mended(tmp_path, source, expected):
    with pytest.raises(KeyboardInterrupt):
        prepare_folder(source, tmp_path / "out", options=OPTIONS, workers=1, progress=stop_after(8))
    journal = tmp_path / "out" / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-25])
    (tmp_path / "out" / "images" / "case1.png").write_bytes(b"cut")
    (tmp_path / "out" / "masks" / "case2.png").unlink()
    prepare_folder(source, tmp_path / "out", options=OPTIONS, workers=1)
    assert tree_bytes(tmp_path / "out") == expected


def test_finished_cases_are_not_written_again(tmp_path, source, expected):
    out = tmp_path / "out"
    prepare_folder(source, out, options=OPTIONS, workers=1)
    times = {f: f.stat().st_mtime_ns for f in (out / "images").iterdir()}
    prepare_folder(source, out, options=OPTIONS, workers=1)
    assert {f: f.stat().st_mtime_ns for f in (out / "images").iterdir()} == times
    assert tree_bytes(out) == expected


def test_changed_and_removed_sources_are_followed(tmp_path, source):
    out = tmp_path / "out"
    prepare_folder(source, out, options=OPTIONS, workers=1)
    save_pair(source, "case3", 99)
    for kind in ("images", "masks"):
        (source / kind / "case4.png").unlink()
    prepare_folder(source, out, options=OPTIONS, workers=1)
    prepare_folder(source, tmp_path / "fresh", options=OPTIONS, workers=1)
    assert tree_bytes(out) == tree_bytes(tmp_path / "fresh")
    assert not (out / "images" / "case4.png").exists()


def test_other_options_need_overwrite(tmp_path, source):
    out = tmp_path / "out"
    prepare_folder(source, out, options=OPTIONS, workers=1)
    with pytest.raises(DataError, match="--overwrite"):
        prepare_folder(source, out, options=Options(size=16), workers=1)
    prepare_folder(source, out, options=Options(size=16), workers=1, overwrite=True)
    prepare_folder(source, tmp_path / "fresh", options=Options(size=16), workers=1)
    assert tree_bytes(out) == tree_bytes(tmp_path / "fresh")


def test_foreign_folders_and_nesting_are_refused(tmp_path, source):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="not empty"):
        prepare_folder(source, tmp_path / "full", workers=1)
    with pytest.raises(DataError, match="are inside one another"):
        prepare_folder(source, source / "out", workers=1)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="found a file"):
        prepare_folder(source, tmp_path / "file", workers=1)


SCRIPT = """
from pathlib import Path
from feda3i.reading.decode import Options
from feda3i.prepare.own import prepare_folder

if __name__ == "__main__":
    prepare_folder(Path({source!r}), Path({out!r}), options=Options(size=24), workers={workers})
"""


def is_group_gone(group):
    """Return whether all processes of a killed parent have ended, too."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def kill_after_some_masks(script, masks):
    process = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
    enough = len(list(masks.glob("*.png"))) + 8
    wait_until(
        lambda: process.poll() is not None or len(list(masks.glob("*.png"))) >= enough, pause=0.005
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: is_group_gone(process.pid))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_any_moment_and_repeated_gives_the_same_bytes(tmp_path, workers):
    source = plain_tree(tmp_path / "in", 60, height=120, width=120)
    prepare_folder(source, tmp_path / "reference", options=OPTIONS, workers=1)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(source=str(source), out=str(tmp_path / "out"), workers=workers))
    for _ in range(3):
        kill_after_some_masks(script, tmp_path / "out" / "masks")
    subprocess.run([sys.executable, str(script)], check=True)
    assert tree_bytes(tmp_path / "out") == tree_bytes(tmp_path / "reference")
