import json
import os

import numpy as np
import pytest

from data_files import plain_tree, save_pair
from feda3i.data import packed
from feda3i.data.folder import folder, load_folder


@pytest.fixture
def tree(tmp_path):
    return plain_tree(tmp_path / "data", 8)


@pytest.fixture
def reads(monkeypatch):
    """Count how many cases are decoded."""
    calls = []
    read = packed.Listing.read
    monkeypatch.setattr(
        packed.Listing, "read", lambda self, case: calls.append(case.id) or read(self, case)
    )
    return calls


def files(root):
    return sorted(f.name for f in (root / packed.FOLDER).iterdir())


def test_the_second_start_reads_no_picture(tree, reads):
    first = load_folder(tree)
    assert len(reads) > 0
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


def test_train_and_test_share_one_mapped_file(tree):
    federation = folder(tree, sites=2)
    assert len(files(tree)) == 2
    assert not federation.train.images.flags.owndata
    assert not federation.test.images.flags.owndata


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]


DAMAGE = {
    "cut": lambda data: data[:-1000],
    "long": lambda data: data + b"0",
    "image": lambda data: flipped(data, 0),
    "mask": lambda data: flipped(data, -2),
    "empty": lambda data: b"",
    "gone": None,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_cache_is_built_again(tree, reads, kind):
    expected = load_folder(tree).digest()
    reads.clear()
    file = next((tree / packed.FOLDER).glob("*cases.bin"))
    if kind == "gone":
        file.unlink()
    else:
        file.write_bytes(DAMAGE[kind](file.read_bytes()))
    assert load_folder(tree).digest() == expected
    assert reads
    reads.clear()
    load_folder(tree)
    assert not reads


def test_a_damaged_header_is_not_trusted(tree, reads):
    expected = load_folder(tree).digest()
    header = next((tree / packed.FOLDER).glob("*header.json"))
    for text in ("{", "[]", json.dumps({"shapes": 1})):
        header.write_text(text)
        reads.clear()
        assert load_folder(tree).digest() == expected
        assert reads


def test_changed_files_and_options_make_a_new_cache(tree, reads):
    load_folder(tree)
    save_pair(tree, "case3", 55)
    reads.clear()
    changed = load_folder(tree)
    assert reads
    assert changed.digest() == load_folder(tree, cache=False).digest()
    assert len(files(tree)) == 2  # the old state is gone
    load_folder(tree, size=16)
    assert len(files(tree)) == 4  # other options live beside it
    reads.clear()
    load_folder(tree)
    load_folder(tree, size=16)
    assert not reads


def test_read_only_folders_use_the_users_cache(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    tree.chmod(0o555)
    try:
        load_folder(tree)
        assert not (tree / packed.FOLDER).exists()
        found = list((tmp_path / "user" / "feda3i").iterdir())
        assert len(found) == 2
        assert all(f.stat().st_mode & 0o077 == 0 for f in found if f.suffix == ".bin")
        assert (tmp_path / "user" / "feda3i").stat().st_mode & 0o077 == 0
    finally:
        tree.chmod(0o755)


def test_a_full_disk_means_no_cache_but_cases(tree, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    cases = load_folder(tree)
    assert cases.digest() == load_folder(tree, cache=False).digest()
    assert files(tree) == []


def test_errors_leave_no_file(tree):
    (tree / "images" / "case4.png").write_bytes(b"broken")
    with pytest.raises(Exception, match="not a picture"):
        load_folder(tree)
    assert files(tree) == []


def test_parts_of_a_folder_do_not_push_each_other_out(tree, reads):
    folder(tree, sites=2)
    load_folder(tree)
    reads.clear()
    folder(tree, sites=2)
    load_folder(tree)
    assert not reads


def test_what_nobody_used_for_a_month_is_dropped(tree):
    load_folder(tree, size=16)
    old = next((tree / packed.FOLDER).glob("*header.json"))
    os.utime(old, (0, 0))
    load_folder(tree)
    assert not old.exists()
    assert len(files(tree)) == 2


def test_a_chosen_folder_is_used(tree, tmp_path):
    load_folder(tree, cache=tmp_path / "elsewhere")
    assert len(list((tmp_path / "elsewhere").iterdir())) == 2
    assert not (tree / packed.FOLDER).exists()


@pytest.mark.parametrize("kind", ["images", "masks"])
def test_a_file_of_the_same_size_and_date_is_noticed(tree, reads, kind):
    before = load_folder(tree)
    two = (tree / kind / "case0.png", tree / kind / "case1.png")
    other, picture = sorted(two, key=lambda file: file.stat().st_size)
    info = picture.stat()
    data = other.read_bytes().ljust(info.st_size, b"\0")  # readers stop at the end of a PNG
    picture.write_bytes(data)
    os.utime(picture, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert picture.stat().st_size == info.st_size
    assert picture.stat().st_mtime_ns == info.st_mtime_ns
    reads.clear()
    after = load_folder(tree)
    assert reads
    assert after.digest() == load_folder(tree, cache=False).digest() != before.digest()
