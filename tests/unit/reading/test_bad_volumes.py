"""One bad volume, image or member does not stop a preparation: it is named, the rest is made."""

import gzip
import io
import os
import zipfile

import numpy as np
import pytest

from data_files import plain_tree, save_pair, zip_folder
from feda3i.data.folder import load_folder
from feda3i.errors import DataError
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options
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


@pytest.mark.parametrize("volumes", [False, True])
def test_odd_nifti_files_are_named_and_the_rest_is_prepared(tmp_path, volumes):
    root = tmp_path / "in"
    for stem in ("fine", "well"):
        put(root, stem, good(), mask())
    for stem, make in ODD.items():
        put(root, stem, make(), mask())
        if "spacing" not in stem:
            put(root, f"mask {stem}", good(), make())
    options = Options(size=None, volumes=volumes)
    result = prepare_folder(root, tmp_path / "out", options=options, workers=1)
    bad = {problem.name for problem in errors_of(result.problems)}
    assert bad == {*ODD, *(f"mask {stem}" for stem in ODD if "spacing" not in stem)}
    assert sum(result.manifest["cases"].values()) == (2 if volumes else 6)


def test_the_thickness_of_slices_is_not_needed_to_cut_them(tmp_path):
    for stem in ("a", "b"):
        put(tmp_path / "in", stem, with_bytes(good(), PIXDIM + 12, 0, "<f4"), mask())
    result = prepare_folder(tmp_path / "in", tmp_path / "out", options=Options(size=8), workers=1)
    assert not errors_of(result.problems)


def dicom(**changes):
    """Return a CT slice as a file; a change to ``None`` takes the field away."""
    from test_dicom import slices

    (image, *_), _ = slices(1)
    for name, value in changes.items():
        if value is None:
            delattr(image, name)
        else:
            setattr(image, name, value)
    buffer = io.BytesIO()
    image.save_as(buffer)
    return buffer.getvalue()


def test_odd_dicom_files_are_named_and_the_rest_is_prepared(tmp_path):
    pytest.importorskip("pydicom")
    pytest.importorskip("highdicom")
    from test_dicom import segmentation, slices, write

    root = tmp_path / "in"
    images, masks = slices()
    write(root, images, segmentation(images, masks.astype(np.uint8)))
    odd = {
        "no-uid": dicom(SOPInstanceUID=None),
        "empty-uid": dicom(SOPInstanceUID=""),
        "no-series": dicom(SeriesInstanceUID=None),
        "no-class": dicom(SOPClassUID=None),
        "no-rows": dicom(Rows=None),
        "text": b"Dear colleague",
        "cut": dicom()[:200],
        "deflated": dicom().replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.99"),
    }
    for name, data in odd.items():
        (root / f"{name}.dcm").write_bytes(data)
    result = prepare_folder(root, tmp_path / "out", options=Options(size=8), workers=1)
    assert {p.name for p in errors_of(result.problems)} == {f"{name}.dcm" for name in odd}
    assert sum(result.manifest["cases"].values()) == 3


def test_a_member_of_unknown_compression_is_named_and_the_rest_is_prepared(tmp_path):
    packed = zip_folder(plain_tree(tmp_path / "set", 4), tmp_path / "set.zip")
    data = bytearray(packed.read_bytes())
    with zipfile.ZipFile(packed) as archive:
        info = archive.getinfo("set/images/case0.png")
    data[info.header_offset + 8] = 99  # in the member's own header and in the directory
    place = data.index(b"set/images/case0.png", info.header_offset + 100) - 46
    data[place + 10] = 99
    packed.write_bytes(data)
    result = prepare_folder(packed, tmp_path / "out", options=Options(size=16), workers=1)
    assert [(p.kind, p.name) for p in errors_of(result.problems)] == [
        ("unreadable file", "set/case0")
    ]
    assert sum(result.manifest["cases"].values()) == 3
    assert result.manifest["options"]["channels"] == 3


def test_links_to_nothing_and_folders_with_an_images_name_do_not_stop_it(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    (root / "images" / "loop.png").symlink_to("loop.png")
    save_pair(root, "folder", 9)
    (root / "images" / "folder.png").unlink()
    (root / "images" / "folder.png").mkdir()
    save_pair(root, "pipe", 10)
    (root / "images" / "pipe.png").unlink()
    os.mkfifo(root / "images" / "pipe.png")
    result = prepare_folder(root, tmp_path / "out", options=Options(size=16), workers=1)
    assert {(p.kind, p.name) for p in errors_of(result.problems)} == {
        ("unreadable file", "images/loop.png"),
        ("image missing", "masks/folder.png"),
        ("image missing", "masks/pipe.png"),
    }
    assert sum(result.manifest["cases"].values()) == 3


def test_a_pipe_that_a_table_names_is_no_file(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    os.mkfifo(root / "images" / "pipe.png")
    names = [f"images/{n}.png,masks/case0.png,{n}\n" for n in ("case0", "case1", "case2", "pipe")]
    table = root / "mine.csv"
    table.write_text("image,mask,name\n" + "".join(names))
    result = prepare_folder(table, tmp_path / "out", options=Options(size=16), workers=1)
    assert [p.kind for p in errors_of(result.problems)] == ["file missing"]
    assert sum(result.manifest["cases"].values()) == 3


def test_a_pipe_in_a_prepared_set_is_no_case(tmp_path):
    plain_tree(tmp_path / "in", 3)
    prepare_folder(tmp_path / "in", tmp_path / "out", options=Options(size=16), workers=1)
    (tmp_path / "out" / "images" / "case0.png").unlink()
    os.mkfifo(tmp_path / "out" / "images" / "case0.png")
    with pytest.raises(DataError, match="file missing"):
        load_folder(tmp_path / "out", cache=False)


def test_links_in_many_circles_come_to_an_end(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    rooms = [root / f"room{n}" for n in range(9)]
    for room in rooms:
        room.mkdir()
        for other in rooms:
            (room / other.name).symlink_to(other)
    result = prepare_folder(root, tmp_path / "out", options=Options(size=16), workers=1)
    assert sum(result.manifest["cases"].values()) == 3
