"""A prepared set that was edited or damaged is refused by everything that reads it."""

import csv
import json

import pytest

from data_files import plain_tree, save_pair
from feda3i.data.check import check_data
from feda3i.data.folder import folder, load_folder
from feda3i.errors import DataError
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options
from feda3i.reading.names import group_of
from feda3i.reading.prepared import read_index, read_manifest


@pytest.fixture
def prepared(tmp_path):
    plain_tree(tmp_path / "in", 6)
    prepare_folder(tmp_path / "in", tmp_path / "set", options=Options(size=32), workers=1)
    return tmp_path / "set"


def edit_index(root, change):
    path = root / "index.csv"
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    change(rows)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def edit_manifest(root, change):
    manifest = json.loads((root / "manifest.json").read_text())
    change(manifest)
    (root / "manifest.json").write_text(json.dumps(manifest))


def swap_split(rows):
    rows[1][4] = "test" if rows[1][4] == "train" else "train"


INDEX = {
    "row lost": lambda rows: rows.pop(2),
    "row twice": lambda rows: rows.append(rows[1]),
    "split": swap_split,
    "source": lambda rows: rows[1].__setitem__(2, "elsewhere"),
    "group": lambda rows: rows[1].__setitem__(5, "other patient"),
    "spacing": lambda rows: rows[1].__setitem__(7, "2 2"),
    "spacing nan": lambda rows: rows[1].__setitem__(7, "nan 1"),
    "spacing text": lambda rows: rows[1].__setitem__(7, "one"),
    "id elsewhere": lambda rows: rows[1].__setitem__(0, "../../x"),
    "cell lost": lambda rows: rows[1].pop(),
    "cell more": lambda rows: rows[1].append("x"),
    "heading": lambda rows: rows[0].__setitem__(0, "name"),
    "all lost": lambda rows: rows.clear(),
}
MANIFEST = {
    "split": lambda m: m["cases"].update(train=1),
    "hash": lambda m: m.update(sha256="0" * 64),
    "classes": lambda m: m["options"].update(classes=["a", "b"]),
    "channels": lambda m: m["options"].update(channels=1),
    "no options": lambda m: m.pop("options"),
    "options a list": lambda m: m.update(options=[]),
    "no size": lambda m: m["options"].update(size="large"),
    "no card": lambda m: m.update(card=None),
    "no hash": lambda m: m.pop("sha256"),
    "licence": lambda m: m["card"].update(licence="CC-0"),
    "format": lambda m: m.update(format="feda3i-prepared-99"),
}


def refused(root):
    """Return whether both, training and the site doctor, refuse the set with an error of ours."""
    with pytest.raises(DataError):
        folder(root, sites=2, cache=False)
    with pytest.raises(DataError):
        load_folder(root, cache=False)
    try:
        return not check_data(root, measure=False, workers=1).is_fit
    except DataError:
        return True


@pytest.mark.parametrize("change", INDEX.values(), ids=INDEX)
def test_an_edited_index_is_refused(prepared, change):
    edit_index(prepared, change)
    assert refused(prepared)


@pytest.mark.parametrize("change", MANIFEST.values(), ids=MANIFEST)
def test_an_edited_manifest_is_refused(prepared, change):
    edit_manifest(prepared, change)
    assert refused(prepared)


@pytest.mark.parametrize("name", ["index.csv", "manifest.json"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe\0\0", b"[" * 100_000, b"\0" * 50, b'"' * 7])
def test_a_damaged_file_is_refused(prepared, name, data):
    (prepared / name).write_bytes(data)
    assert refused(prepared)


def test_a_whole_set_is_taken(prepared):
    assert len(load_folder(prepared, cache=False)) == 6
    assert check_data(prepared, measure=False, workers=1).is_fit
    assert len(read_index(prepared)) == 6


def test_a_set_from_before_the_seal_is_still_taken(prepared):
    edit_manifest(prepared, lambda m: (m.pop("seal"), m.pop("sha256_index")))
    assert read_manifest(prepared)
    assert len(load_folder(prepared, cache=False)) == 6


def test_a_manifest_of_another_program_makes_no_prepared_set(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    (root / "manifest.json").write_text('{"name": "viewer", "icons": []}')
    (root / "index.csv").write_text("file,author\n")
    assert len(load_folder(root, cache=False)) == 3
    assert check_data(root, measure=False, workers=1).is_fit
    result = prepare_folder(root, tmp_path / "out", options=Options(size=16), workers=1)
    assert sum(result.manifest["cases"].values()) == 3


@pytest.mark.parametrize(
    "options", [("--test-share", "5"), ("--test-share", "nan"), ("--window", "0,inf")]
)
def test_wrong_numbers_are_refused_before_anything_is_written(feda3i, tmp_path, options):
    plain_tree(tmp_path / "in", 2)
    assert feda3i("prepare", "folder", tmp_path / "in", tmp_path / "out", *options)[0] == 2
    assert not (tmp_path / "out").exists()


def test_run_refuses_it_as_check_does(feda3i, prepared, tmp_path):
    edit_index(prepared, INDEX["row lost"])
    code, out, _ = feda3i("check", prepared, "--size", 32)
    assert code == 1
    assert "changed since preparation" in out
    arguments = ["run", "demo", "data=folder", f"data.path={prepared}", "data.sites=2"]
    code, _, err = feda3i(*arguments, "--out", tmp_path / "run")
    assert code == 1
    assert "changed since preparation" in err
    assert "prepare again" in err


PATTERNS = ("(", "(?P<group>", "[a-z]+", "*", "(?P<group>a){99999999999}")


def prepare_with(feda3i, root, pattern):
    return feda3i("prepare", "folder", root / "in", root / "out", "--group", pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_that_are_none_are_wrong_usage(feda3i, tmp_path, pattern):
    plain_tree(tmp_path / "in", 2)
    code, _, err = feda3i(
        "prepare", "folder", tmp_path / "in", tmp_path / "out", "--group", pattern
    )
    assert code == 2
    assert "(?P<group>" in err
    assert not (tmp_path / "out").exists()


def test_a_pattern_that_never_ends_is_stopped(feda3i, tmp_path, monkeypatch):
    monkeypatch.setattr("feda3i.reading.patterns._SECONDS", 0.05)
    save_pair(tmp_path / "in", "a" * 60)
    pattern = "(?P<group>(a+)+)b"  # 2**60 ways to fail
    code, _, err = feda3i(
        "prepare", "folder", tmp_path / "in", tmp_path / "out", "--group", pattern
    )
    assert code == 2
    assert "takes too long on the name" in err


def test_a_sane_pattern_groups():
    assert group_of("p7_left", "(?P<group>[^_]+)_.*") == "p7"
    assert group_of("p7", "(?P<group>[^_]+)_.*") == "p7"


@pytest.mark.parametrize("size", [-5, 0, 3, 15, 4097])
def test_the_doctor_refuses_sizes_that_cannot_be_trained(feda3i, prepared, size):
    code, _, err = feda3i("check", prepared, f"--size={size}")
    assert code == 2
    assert "from 16 to 4096" in err


def test_the_doctor_sees_images_that_are_too_small(feda3i, tmp_path):
    plain_tree(tmp_path / "in", 4, height=12, width=12)
    report = check_data(tmp_path / "in", measure=False, workers=1)
    assert [p.kind for p in report.problems if p.level == "error"] == ["image too small"] * 4
    assert check_data(tmp_path / "in", size=32, measure=False, workers=1).is_fit
