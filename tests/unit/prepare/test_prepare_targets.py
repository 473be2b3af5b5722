"""What ``feda3i prepare`` may write to, and what it must never touch."""

import errno
import json
import tarfile
import zipfile

import pytest

from data_files import plain_tree, tree_bytes
from feda3i.errors import DataError
from feda3i.prepare import work as prepare_module
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options
from feda3i.reading.prepared import JOURNAL

SMALL = Options(size=16)


def prepare(source, target, **changes):
    return prepare_folder(source, target, workers=1, **{"options": SMALL, **changes})


@pytest.fixture
def tree(tmp_path):
    return plain_tree(tmp_path / "in", 4)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("manifest.json", '{"name": "my app", "icons": []}'),
        ("manifest.json", "no JSON at all"),
        ("manifest.json", '{"format": "feda3i-run-1"}'),
        ("manifest.json", "[" * 100_000),
        (JOURNAL, "a diary"),
        (JOURNAL, '{"options": 1}'),
        ("notes.txt", "keep me"),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_foreign_folder_is_refused_and_stays_as_it_is(tmp_path, tree, name, text, overwrite):
    target = tmp_path / "out"
    (target / "images").mkdir(parents=True)
    (target / "images" / "case0.png").write_bytes(b"mine")
    (target / name).write_text(text)
    before = tree_bytes(target)
    with pytest.raises(DataError, match="no set prepared by us"):
        prepare(tree, target, overwrite=overwrite)
    assert tree_bytes(target) == before


def test_a_run_folder_is_refused(tmp_path, tree, finished):
    before = tree_bytes(finished)
    with pytest.raises(DataError, match="no set prepared by us"):
        prepare(tree, finished, overwrite=True)
    assert tree_bytes(finished) == before


def test_our_own_set_is_a_target_and_foreign_files_in_it_stay(tmp_path, tree):
    target = tmp_path / "out"
    prepare(tree, target)
    (target / "notes.txt").write_text("keep me")
    (target / ".part-time.txt").write_text("mine, too")
    (target / "manifest.json").write_text("damaged")  # the journal still says whose it is
    result = prepare(tree, target, overwrite=True, options=Options(size=24))
    assert result.manifest["options"]["size"] == 24
    assert (target / "notes.txt").read_text() == "keep me"
    assert (target / ".part-time.txt").read_text() == "mine, too"


def test_what_a_killed_start_left_is_no_dead_end(tmp_path, tree):
    target = tmp_path / "out"
    (target / ".feda3i-scratch").mkdir(parents=True)
    (target / ".feda3i-scratch" / "set.tar.gz.tar").write_bytes(b"half")
    (target / f".part-123-{JOURNAL}").write_bytes(b"{")
    prepare(tree, target)
    whole = tmp_path / "whole"
    prepare(tree, whole)
    assert tree_bytes(target) == tree_bytes(whole)


@pytest.mark.parametrize("damage", ["bytes", "line", "head", "types", "nothing"])
def test_a_damaged_journal_is_done_again_to_the_same_bytes(tmp_path, tree, damage):
    target = tmp_path / "out"
    prepare(tree, target)
    before = tree_bytes(target)
    journal = target / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(
        {
            "bytes": journal.read_bytes() + b"\xff\xfe\0",
            "line": b"".join([*lines[:2], b'{"name": 3}\n[1]\n7\n', *lines[3:]]),
            "head": b"".join([b"\xff{\n", *lines[1:]]),
            "types": lines[0] + b'{"name": "case0", "rows": [{"id": 3, "name": []}]}\n',
            "nothing": b"",
        }[damage]
    )
    prepare(tree, target)
    assert tree_bytes(target) == before


def test_a_journal_from_elsewhere_removes_nothing_outside(tmp_path, tree):
    target = tmp_path / "out"
    prepare(tree, target)
    victim = tmp_path / "victim.png"
    victim.write_bytes(b"precious")
    journal = target / JOURNAL
    lines = journal.read_text().splitlines()
    record = json.loads(lines[1])
    record["rows"][0]["id"] = "../../victim"
    journal.write_text("\n".join([lines[0], json.dumps(record), *lines[2:]]) + "\n")
    prepare(tree, target, overwrite=True, options=Options(size=24))
    assert victim.read_bytes() == b"precious"


def pack(tree, target):
    """Pack the content of a tree, without a folder around it."""
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(tree.rglob("*.png")):
                archive.write(file, file.relative_to(tree))
    else:
        with tarfile.open(target, "w:gz" if target.suffix == ".gz" else "w") as archive:
            for name in ("images", "masks"):
                archive.add(tree / name, name)
    return target


@pytest.mark.parametrize("name", ["set.zip", "set.tar", "set.tar.gz"])
def test_the_same_set_gives_the_same_bytes_from_any_container(tmp_path, tree, name):
    plain = prepare(tree, tmp_path / "plain")
    assert plain.manifest["options"]["channels"] == 3
    packed = prepare(pack(tree, tmp_path / name), tmp_path / "packed")
    assert packed.manifest == plain.manifest
    assert tree_bytes(tmp_path / "packed") == tree_bytes(tmp_path / "plain")


def test_a_full_disk_is_an_error_of_ours_and_the_same_command_goes_on(tmp_path, tree, monkeypatch):
    done = []
    write = prepare_module.write_case

    def full(folder, name, *rest):
        if len(done) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        done.append(name)
        write(folder, name, *rest)

    target = tmp_path / "out"
    monkeypatch.setattr(prepare_module, "write_case", full)
    with pytest.raises(DataError, match=r"disk is full.*repeat the same command"):
        prepare(tree, target)
    assert not (target / "manifest.json").exists()
    assert not list(target.rglob(".part-*"))
    monkeypatch.undo()
    prepare(tree, target)
    prepare(tree, tmp_path / "whole")
    assert tree_bytes(target) == tree_bytes(tmp_path / "whole")


def test_a_full_disk_while_an_archive_is_inflated_does_not_blame_the_archive(
    tmp_path, tree, monkeypatch
):
    packed = pack(tree, tmp_path / "set.tar.gz")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("feda3i.reading.archive._inflate", full)
    with pytest.raises(DataError, match="disk is full"):
        prepare(packed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_usable_leaves_nothing(tmp_path):
    tree = plain_tree(tmp_path / "in", 1)
    (tree / "images" / "case0.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match="not a picture"):
        prepare(tree, tmp_path / "out")
    assert not (tmp_path / "out").exists()
