"""Pixels are decoded once; a cache is used only for the files and options that it was made of."""

import os
from pathlib import Path

import numpy as np
import pytest

from data_files import plain_tree, save_pair
from feda3i.data import packed
from feda3i.data.folder import folder, load_folder
from feda3i.errors import DataError


@pytest.fixture
def tree(tmp_path):
    return plain_tree(tmp_path / "data", 8)


@pytest.fixture
def reads(monkeypatch):
    """Count how many cases are decoded."""
    calls = []
    read = packed.Listing.read
    noted = lambda self, case: calls.append(case.id) or read(self, case)
    monkeypatch.setattr(packed.Listing, "read", noted)
    return calls


def caches(root):
    return list((root / packed.FOLDER).iterdir())


def test_the_second_start_reads_no_picture(tree, reads):
    first = load_folder(tree)
    assert len(reads) == 8
    reads.clear()
    second = load_folder(tree)
    assert not reads
    assert first.digest() == second.digest() == load_folder(tree, cache=False).digest()
    base = second.images
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        second.images[0, 0, 0, 0] = 1


DAMAGE = {
    "images.bin": [lambda data: data[:-1000], lambda data: data + b"0", None],
    "masks.bin": [lambda data: data[:-1]],
    "header.json": [lambda data: b"{", lambda data: b"[]"],
}


@pytest.mark.parametrize(("name", "change"), [(n, c) for n, own in DAMAGE.items() for c in own])
def test_a_damaged_cache_is_built_again(tree, reads, name, change):
    expected = load_folder(tree).digest()
    (file,) = (tree / packed.FOLDER).glob(f"*/{name}")
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    for is_read in (True, False):
        reads.clear()
        assert load_folder(tree).digest() == expected
        assert bool(reads) == is_read


def test_changed_files_and_options_make_a_new_cache(tree, reads):
    load_folder(tree)
    save_pair(tree, "case3", 55)
    assert load_folder(tree).digest() == load_folder(tree, cache=False).digest()
    assert len(caches(tree)) == 1  # the old state is gone
    for _ in range(2):
        reads.clear()
        load_folder(tree)
        load_folder(tree, size=16)
        assert not folder(tree, sites=2).train.images.flags.owndata
        assert len(caches(tree)) == 3  # other options and parts live beside it
    assert not reads


def test_only_the_user_may_enter_the_cache_of_a_read_only_folder(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    tree.chmod(0o555)
    try:
        load_folder(tree)
        assert not (tree / packed.FOLDER).exists()
        assert len(caches(tmp_path / "user" / "feda3i")) == 1
        assert (tmp_path / "user" / "feda3i" / packed.FOLDER).stat().st_mode & 0o077 == 0
    finally:
        tree.chmod(0o755)


def test_a_full_disk_means_no_cache_but_cases_and_errors_leave_no_file(tree, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    assert load_folder(tree).digest() == load_folder(tree, cache=False).digest()
    assert caches(tree) == []
    (tree / "images" / "case4.png").write_bytes(b"broken")
    with pytest.raises(DataError, match="not a picture"):
        load_folder(tree)
    assert caches(tree) == []


def test_a_file_of_the_same_size_and_date_is_noticed(tree):
    before = load_folder(tree)
    two = (tree / "masks" / "case0.png", tree / "masks" / "case1.png")
    other, picture = sorted(two, key=lambda file: file.stat().st_size)
    info = picture.stat()
    picture.write_bytes(other.read_bytes().ljust(info.st_size, b"\0"))  # readers stop at the end
    os.utime(picture, ns=(info.st_atime_ns, info.st_mtime_ns))
    after = load_folder(tree)
    assert after.digest() == load_folder(tree, cache=False).digest() != before.digest()
