import io
import os
import stat
import tarfile
import zipfile

import pytest

from data_files import plain_tree, tar_folder, zip_folder
from feda3i.reading import archive
from feda3i.reading.archive import FileEntry, Reader, is_safe, list_entries
from feda3i.reading.problems import CaseError


def names(entries):
    return [entry.name for entry in entries]


def read_all(entries):
    with Reader() as reader:
        return {entry.name: reader.read(entry) for entry in entries}


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz", "tgz"])
def test_folder_and_archives_hold_the_same(tmp_path, ending):
    tree = plain_tree(tmp_path / "set", 2)
    packed = tmp_path / "in" / f"set.{ending}"
    if ending == "zip":
        zip_folder(tree, packed)
    else:
        tar_folder(tree, packed, "w:" + {"tgz": "gz", "tar": ""}.get(ending, ending[4:]))
    expected = {f"set/{k}": v for k, v in read_all(list_entries(tree)[0]).items()}
    alone, problems = list_entries(packed, tmp_path / "scratch")
    assert read_all(alone) == expected
    assert not problems
    inside, problems = list_entries(packed.parent, tmp_path / "scratch2")
    assert read_all(inside) == {f"set/{name}": data for name, data in expected.items()}
    assert not problems


def test_junk_and_hidden_files_are_skipped(tmp_path):
    tree = plain_tree(tmp_path / "set", 1)
    for name in (".DS_Store", "__MACOSX/images/._case0.png", "Thumbs.db", ".feda3i-cache/x.npy"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(b"x")
    expected = ["images/case0.png", "masks/case0.png"]
    assert names(list_entries(tree)[0]) == expected
    found, _ = list_entries(zip_folder(tree, tmp_path / "set.zip"))
    assert names(found) == [f"set/{name}" for name in expected]


def test_an_archive_beside_its_folder_is_not_read_twice(tmp_path):
    tree = plain_tree(tmp_path / "in" / "set", 1)
    zip_folder(tree, tmp_path / "in" / "set.zip")
    found, problems = list_entries(tmp_path / "in", tmp_path / "scratch")
    assert names(found) == ["set/images/case0.png", "set/masks/case0.png"]
    assert [p.kind for p in problems] == ["archive skipped"]


@pytest.mark.parametrize(
    "bad", ["../evil.png", "a/../../evil.png", "/etc/evil.png", "C:/evil.png", "..\\evil.png"]
)
def test_names_that_lead_outside_are_refused(tmp_path, bad):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as target:
        target.writestr("images/fine.png", b"x")
        target.writestr(bad, b"x")
    with tarfile.open(tmp_path / "bad.tar", "w") as target:
        info = tarfile.TarInfo(bad.replace("\\", "/"))
        info.size = 1
        target.addfile(info, io.BytesIO(b"x"))
    found, problems = list_entries(tmp_path, tmp_path / "scratch")
    assert found == []
    assert {(p.kind, p.name) for p in problems} == {
        ("unsafe archive", "bad.zip"),
        ("unsafe archive", "bad.tar"),
    }


def test_links_in_archives_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as target:
        info = zipfile.ZipInfo("images/link.png")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        target.writestr(info, "/etc/passwd")
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
        with tarfile.open(tmp_path / f"link{kind.decode()}.tar", "w") as target:
            info = tarfile.TarInfo("images/link.png")
            info.type, info.linkname = kind, "/etc/passwd"
            target.addfile(info)
    found, problems = list_entries(tmp_path, tmp_path / "scratch")
    assert found == []
    assert [p.kind for p in problems] == ["unsafe archive"] * 4


def test_the_same_name_twice_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as target:
        target.writestr("a.png", b"1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            target.writestr("a.png", b"2")
    _, problems = list_entries(tmp_path / "two.zip")
    assert "twice" in problems[0].text


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "tar.xz"])
def test_half_copied_archives_are_named(tmp_path, ending):
    tree = plain_tree(tmp_path / "set", 4)
    packed = tmp_path / f"half.{ending}"
    if ending == "zip":
        zip_folder(tree, packed)
    else:
        tar_folder(tree, packed, "w:" + {"tar": ""}.get(ending, ending[4:]))
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 3])
    found, problems = list_entries(packed, tmp_path / "scratch")
    assert found == []
    assert [(p.level, p.kind) for p in problems] == [("error", "half-copied archive")]


def test_a_damaged_member_is_an_error_of_its_own(tmp_path):
    packed = zip_folder(plain_tree(tmp_path / "set", 2), tmp_path / "set.zip")
    data = bytearray(packed.read_bytes())
    with zipfile.ZipFile(packed) as target:
        info = target.getinfo("set/images/case0.png")
        start = info.header_offset + 30 + len(info.filename) + 40
    data[start] ^= 0xFF
    packed.write_bytes(data)
    entries, problems = list_entries(packed)
    assert len(entries) == 4
    assert not problems
    with Reader() as reader, pytest.raises(CaseError, match="unreadable"):
        reader.read(next(e for e in entries if e.name.endswith("images/case0.png")))


def test_inflating_stops_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MIN_UNPACK_BYTES", 1000)
    monkeypatch.setattr(archive, "MAX_UNPACK_RATIO", 3)
    (tmp_path / "zeros").write_bytes(bytes(5_000_000))
    packed = tar_folder(tmp_path / "zeros", tmp_path / "bomb.tar.gz")
    _, problems = list_entries(packed, tmp_path / "scratch")
    assert [p.kind for p in problems] == ["archive bomb"]
    assert sum(f.stat().st_size for f in (tmp_path / "scratch").iterdir()) < 5_000_000


def test_locked_archives_are_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "locked.zip", "w") as target:
        target.writestr("a.png", b"x")
    data = bytearray((tmp_path / "locked.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the flag for encryption in the directory
    (tmp_path / "locked.zip").write_bytes(data)
    _, problems = list_entries(tmp_path / "locked.zip")
    assert [p.kind for p in problems] == ["locked archive"]


def test_empty_and_huge_files_are_refused_before_reading(tmp_path, monkeypatch):
    with Reader() as reader:
        with pytest.raises(CaseError, match="0 bytes"):
            reader.read(FileEntry("a", str(tmp_path / "a"), 0))
        with pytest.raises(CaseError, match="too large"):
            reader.read(FileEntry("a", str(tmp_path / "a"), 10**12))
        (tmp_path / "short").write_bytes(b"12")
        with pytest.raises(CaseError, match="half-copied"):
            reader.read(FileEntry("short", str(tmp_path / "short"), 3))


def test_links_that_lead_back_end(tmp_path):
    tree = plain_tree(tmp_path / "set", 1)
    os.symlink(tree, tree / "again")
    assert names(list_entries(tree)[0]) == ["images/case0.png", "masks/case0.png"]


def test_safe_names():
    assert is_safe("a/b..c/d.png")
    assert not is_safe("a\0b")
