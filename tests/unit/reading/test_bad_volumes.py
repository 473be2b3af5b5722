"""One bad volume, image or member does not stop a preparation: it is named, the rest is made."""

import gzip
import os

import numpy as np
import pytest

from data_files import plain_tree, save_pair
from feda3i.data.checkup import check_data
from feda3i.reading.problems import errors_of

nibabel = pytest.importorskip("nibabel")

DIM, DATATYPE, OFFSET, PIXDIM = 40, 70, 108, 76  # positions in the header of NIfTI-1


def volume(values, spacing=(1.0, 1.0, 2.0)):
    return nibabel.Nifti1Image(values, np.diag([*spacing, 1.0])).to_bytes()


def good():
    values = np.random.default_rng(0).normal(100, 20, (8, 8, 3)).astype(np.float32)
    return volume(values)


def mask(shape=(8, 8, 3)):
    drawn = np.zeros(shape, np.uint8)
    drawn[2:5, 2:5] = 1
    return volume(drawn)


def with_bytes(data, place, value, dtype="<i2"):
    new = np.array(value, dtype).tobytes()
    return data[:place] + new + data[place + len(new) :]


ODD = {
    "cut at 100 bytes": lambda: good()[:100],
    "cut in its numbers": lambda: good()[:-100],
    "zero dimension": lambda: with_bytes(good(), DIM + 2, 0),
    "negative dimension": lambda: with_bytes(good(), DIM + 2, -8),
    "four dimensions": lambda: with_bytes(good(), DIM, 4),
    "nine dimensions": lambda: with_bytes(good(), DIM, 9),
    "odd datatype": lambda: with_bytes(good(), DATATYPE, 4711),
    "complex": lambda: volume(np.ones((8, 8, 3), np.complex64)),
    "colours": lambda: volume(np.zeros((8, 8, 3), [("R", "u1"), ("G", "u1"), ("B", "u1")])),
    "offset not finite": lambda: with_bytes(good(), OFFSET, np.nan, "<f4"),
    "offset negative": lambda: with_bytes(good(), OFFSET, -1e9, "<f4"),
    "values not finite": lambda: volume(np.full((8, 8, 3), np.nan, np.float32)),
    "gzip of text": lambda: gzip.compress(b"Dear colleague, please find enclosed ..." * 40),
    "gzip cut": lambda: gzip.compress(good())[:60],
    "text": lambda: b"Dear colleague",
    "spacing nan": lambda: with_bytes(good(), PIXDIM + 4, np.nan, "<f4"),
    "spacing zero": lambda: with_bytes(good(), PIXDIM + 4, 0, "<f4"),
    "spacing negative": lambda: with_bytes(good(), PIXDIM + 4, -1, "<f4"),
    "spacing infinite": lambda: with_bytes(good(), PIXDIM + 8, np.inf, "<f4"),
}


def put(root, stem, image, drawn):
    for kind, data in (("images", image), ("masks", drawn)):
        (root / kind).mkdir(parents=True, exist_ok=True)
        (root / kind / f"{stem}.nii").write_bytes(data)


def test_odd_nifti_files_are_named_and_the_rest_is_read(tmp_path):
    root = tmp_path / "in"
    for stem in ("fine", "well"):
        put(root, stem, good(), mask())
    for stem, make in ODD.items():
        put(root, stem, make(), mask())
        if "spacing" not in stem:
            put(root, f"mask {stem}", good(), make())
    result = check_data(root, measure=False, size=16)
    bad = {problem.name for problem in errors_of(result.problems)}
    assert bad == {*ODD, *(f"mask {stem}" for stem in ODD if "spacing" not in stem)}
    assert len(result.cases) == 2


def test_links_to_nothing_and_folders_with_an_images_name_do_not_stop_it(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    (root / "images" / "loop.png").symlink_to("loop.png")
    save_pair(root, "folder", 9)
    (root / "images" / "folder.png").unlink()
    (root / "images" / "folder.png").mkdir()
    save_pair(root, "pipe", 10)
    (root / "images" / "pipe.png").unlink()
    os.mkfifo(root / "images" / "pipe.png")
    result = check_data(root, measure=False, size=16)
    assert {(p.kind, p.name) for p in errors_of(result.problems)} == {
        ("unreadable file", "images/loop.png"),
        ("image missing", "masks/folder.png"),
        ("image missing", "masks/pipe.png"),
    }
    assert len(result.cases) == 3


def test_a_pipe_that_a_table_names_is_no_file(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    os.mkfifo(root / "images" / "pipe.png")
    names = [f"images/{n}.png,masks/case0.png,{n}\n" for n in ("case0", "case1", "case2", "pipe")]
    table = root / "mine.csv"
    table.write_text("image,mask,name\n" + "".join(names))
    result = check_data(table, measure=False, size=16)
    assert [p.kind for p in errors_of(result.problems)] == ["file missing"]
    assert len(result.cases) == 3


def test_links_in_many_circles_come_to_an_end(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    rooms = [root / f"room{n}" for n in range(9)]
    for room in rooms:
        room.mkdir()
        for other in rooms:
            (room / other.name).symlink_to(other)
    result = check_data(root, measure=False, size=16)
    assert len(result.cases) == 3
