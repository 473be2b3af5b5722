"""A run folder is made by us or refused; it is a run or it is not there."""

import shutil
import stat
import threading

import pytest

from feda3i.engine import lock
from feda3i.engine.run import resume, run
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RecipeError, RunError
from listeners import StopAfter


def contents(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize("name", ["cache/mine.npy", "state/mine.txt", "recipe.toml", ".lock"])
def test_a_folder_of_somebody_else_is_refused_and_kept(tiny_recipe, tmp_path, name):
    folder = tmp_path / "exp"
    file = folder / name
    file.parent.mkdir(parents=True)
    file.write_text("# mine\n")
    with pytest.raises(RunError, match="no run made"):
        run(tiny_recipe(), folder)
    assert contents(folder) == {name: b"# mine\n"}


def test_the_recipe_beside_the_run_keeps_its_comments(feda3i, tiny_recipe, tmp_path):
    folder = tmp_path / "exp"
    folder.mkdir()
    text = "# my words\n" + tiny_recipe("rounds=1").to_toml()
    (folder / "recipe.toml").write_text(text)
    code, _, err = feda3i("run", folder / "recipe.toml", "--out", folder)
    assert code == 1
    assert "choose a new or empty folder" in err
    assert contents(folder) == {"recipe.toml": text.encode()}


def test_an_empty_folder_is_taken(tiny_recipe, tmp_path):
    (tmp_path / "empty").mkdir()
    assert run(tiny_recipe("rounds=1"), tmp_path / "empty").sha256


# -- a folder is a run or it is not there ----------------------------------------------------------


def test_what_fails_early_leaves_no_folder(tiny_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for override, text in (("engine.device=cuda", "CUDA"), ("method=clean", "known to be clean")):
        with pytest.raises(RecipeError, match=text):
            run(tiny_recipe(override), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("file", ["local.json", "recipe.toml", "manifest.json"])
def test_a_start_that_fails_is_cleared_away(tiny_recipe, tmp_path, monkeypatch, file):
    def full(path, *_, **__):
        if path.name == file:
            raise OSError(28, "No space left on device", str(path))
        write(path, *_, **__)

    from feda3i.files import write_file as write

    monkeypatch.setattr("feda3i.engine.run_folder.write_file", full)
    monkeypatch.setattr("feda3i.recipe.machine.write_file", full)
    for folder in (tmp_path / "new", tmp_path / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        with pytest.raises(OSError, match="No space"):
            run(tiny_recipe(), folder)
        assert folder.exists() == (folder.name == "empty")
        assert not folder.exists() or not any(folder.iterdir())


def test_the_default_folder_of_a_dead_start_is_taken_again(tmp_path):
    from feda3i.commands.run import free_folder

    first = free_folder(tmp_path, "demo")
    first.mkdir()
    (first / ".lock").write_bytes(lock.MARK)
    (first / ".part-4711-recipe.toml").write_bytes(b"half")
    assert free_folder(tmp_path, "demo") == first
    with pytest.raises(RunError, match=rf"never became a run.*feda3i run RECIPE --out {first}"):
        RunFolder.open(first)
    held = lock.Lock(first)
    assert free_folder(tmp_path, "demo") != first
    held.close()
    assert free_folder(tmp_path, "demo") == first
    (first / "manifest.json").write_text("{}")
    assert free_folder(tmp_path, "demo") != first


def test_temporary_files_of_a_dead_process_are_removed(broken):
    leftovers = [
        broken / ".model.safetensors.4711.tmp",
        broken / "state" / ".checkpoint.bin.4711.tmp",
        broken / "cache" / "train-images.tmp.npy",
    ]
    for file in leftovers:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"half")
    mine = broken / "notes.tmp"
    mine.write_text("mine")
    resume(broken)
    assert not any(file.exists() for file in leftovers)
    assert mine.exists()


def test_one_of_two_that_claim_a_folder_gets_it(tmp_path):
    found = []
    gate = threading.Barrier(2)

    def claim():
        gate.wait()
        try:
            found.append(RunFolder.claim(tmp_path / "run"))
        except RunError as error:
            found.append(error)

    threads = [threading.Thread(target=claim) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(item).__name__ for item in found) == ["RunError", "RunFolder"]


# -- privacy ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pixels_lie_in_private_folders_and_go_at_the_end(tiny_recipe, tmp_path):
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(tiny_recipe("engine.workers=2"), path, listener=StopAfter())
    pixels = [f for f in path.rglob("*") if f.suffix == ".npy"]
    assert pixels
    assert {file.parent for file in pixels} == {path / "cache"}
    assert stat.S_IMODE((path / "cache").stat().st_mode) == 0o700
    (path / "cache").chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        resume(path, listener=StopAfter(2))
    assert stat.S_IMODE((path / "cache").stat().st_mode) == 0o700
    resume(path)
    assert not [f for f in path.rglob("*") if f.suffix in (".npy", ".npz")]
    assert not (path / "cache").exists()


def test_the_memory_of_sites_is_private(tiny_recipe, tmp_path):
    path = tmp_path / "run"
    run(tiny_recipe("method=elr", "rounds=2"), path)
    assert stat.S_IMODE((path / "memory").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "name", [".lock", "events.jsonl", "cache", "state/checkpoint.bin", "memory"]
)
def test_nothing_is_written_through_a_link(broken, tmp_path, name):
    target = tmp_path / "target"
    target.write_text("precious")
    link = broken / name
    if link.exists():
        shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(target)
    with pytest.raises(RunError, match="is a link"):
        resume(broken)
    assert target.read_text("utf-8") == "precious"


def test_a_lock_that_is_a_link_is_refused_by_run_too(tiny_recipe, tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(target)
    with pytest.raises(RunError, match="no run made"):
        run(tiny_recipe(), tmp_path / "run")
    with pytest.raises(RunError, match="is a link"):
        lock.Lock(tmp_path / "run")
    assert target.read_text("utf-8") == "precious"
