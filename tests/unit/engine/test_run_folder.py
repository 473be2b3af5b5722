"""A run folder is made by us or refused; it is a run or it is not there."""

import os
import shutil
import signal
import stat
from contextlib import closing

import pytest

from feda3i.engine import lock
from feda3i.engine.run import describe, resume, run
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RecipeError, RunError
from feda3i.files import write_file
from listeners import StopAfter


def contents(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize("name", ["cache/mine.npy", "state/mine.txt", "recipe.toml", ".lock"])
def test_a_folder_of_somebody_else_is_refused_and_kept(tiny_recipe, tmp_path, name):
    file = tmp_path / "exp" / name
    file.parent.mkdir(parents=True)
    text = "# my words\n" + tiny_recipe("rounds=1").to_toml()
    file.write_text(text)
    with pytest.raises(RunError, match="no run made; choose a new or empty folder"):
        run(tiny_recipe(), tmp_path / "exp")
    assert contents(tmp_path / "exp") == {name: text.encode()}


def test_what_fails_early_leaves_no_folder(tiny_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for override, text in (
        ("engine.device=cuda", "CUDA"),
        ("method=clean", "known to be clean"),
        ("data.site=3", "did you mean 'sites'"),
        ("data.sites=0", "sites"),
    ):
        with pytest.raises(RecipeError, match=text):
            run(tiny_recipe(override), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("file", ["local.json", "recipe.toml", "manifest.json"])
def test_a_start_that_fails_leaves_nothing(tiny_recipe, tmp_path, monkeypatch, file):
    def full(path, *_, **__):
        if path.name == file:
            raise OSError(28, "No space left on device", str(path))
        write_file(path, *_, **__)

    (tmp_path / "empty").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("feda3i.engine.run_folder.write_file", full)
        patch.setattr("feda3i.recipe.machine.write_file", full)
        for folder in (tmp_path / "new", tmp_path / "empty"):
            with pytest.raises(OSError, match="No space"):
                run(tiny_recipe(), folder)
    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]
    assert run(tiny_recipe("rounds=1"), tmp_path / "empty").sha256


def test_temporary_files_of_a_dead_process_are_removed(copied):
    names = (".part-47-model.safetensors", "state/.part-47-checkpoint.bin", "notes.tmp")
    for name in names:
        (copied / name).write_bytes(b"half")
    RunFolder.open(copied, to_write=True).close()
    assert [(copied / name).exists() for name in names] == [False, False, True]


def test_one_of_two_that_make_a_folder_gets_it(tiny_recipe, federation, tmp_path):
    facts = {"data": describe(federation)}
    path = tmp_path / "run"
    with closing(RunFolder.create(path, tiny_recipe(), facts)):
        with pytest.raises(RunError, match="already holds a run"):
            RunFolder.create(path, tiny_recipe(), facts)
        with pytest.raises(RunError, match="another process"):
            RunFolder.open(path, to_write=True)
    RunFolder.open(path, to_write=True).close()


def test_what_is_no_run_folder_or_already_one_is_named(tiny_recipe, broken, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=r"no manifest\.json"):
        resume(tmp_path / "empty")
    with pytest.raises(RunError, match="found nothing"):
        resume(tmp_path / "none")
    with pytest.raises(RunError, match=r"feda3i resume .*broken"):
        run(tiny_recipe(), broken)


@pytest.mark.slow
def test_pixels_lie_in_private_folders_and_go_at_the_end(tiny_recipe, tmp_path):
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(tiny_recipe("engine.workers=2", "data.size=128"), path, listener=StopAfter())
    names = {file.name.split("-")[0] for file in (path / "cache").iterdir()}
    assert names == {"array", "params"}
    assert stat.S_IMODE((path / "cache").stat().st_mode) == 0o700
    (path / "cache").chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        resume(path, listener=StopAfter(2))
    assert stat.S_IMODE((path / "cache").stat().st_mode) == 0o700
    resume(path)
    assert not (path / "cache").exists()


@pytest.fixture
def impatient():
    signal.alarm(60)  # ends the tests if the check is lost: a pipe is waited for for ever
    yield
    signal.alarm(0)


@pytest.mark.parametrize(
    "name", ["manifest.json", "events.jsonl", lock.NAME, "cache", "state/checkpoint.bin"]
)
def test_a_link_or_a_pipe_is_refused_and_named(finished, impatient, tmp_path, name):
    target = tmp_path / "target"
    target.write_text("precious")
    for kind, put in (("link", lambda p: p.symlink_to(target)), ("pipe", os.mkfifo)):
        place = shutil.copytree(finished, tmp_path / kind) / name
        place.unlink(missing_ok=True)
        put(place)
        for to_write in (False, True):
            with pytest.raises(RunError, match=f"a link, a pipe or a device: '{place}'"):
                RunFolder.open(tmp_path / kind, to_write=to_write)
    assert target.read_text("utf-8") == "precious"
