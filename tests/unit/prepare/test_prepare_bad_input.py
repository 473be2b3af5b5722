"""Every bad thing of the issue in one folder: all are named in one report, the rest is prepared."""

import csv
import os
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from data_files import lesion, plain_tree, save, save_pair, tree_bytes
from feda3i.data.folder import load_folder
from feda3i.errors import DataError
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options


def bomb(width=20_000, height=20_000):
    """Return a well-formed 1-bit PNG of 400 million pixels in a few kilobytes."""
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x01\x00\x00\x00\x00"
    packer = zlib.compressobj(9)
    row = bytes(1 + (width + 7) // 8)
    body = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    chunks = ((b"IHDR", head), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
        for kind, data in chunks
    )


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """Return a folder with one of each, and the ids' stems by what is wrong."""
    root = tmp_path_factory.mktemp("bad") / "in"
    plain_tree(root, 3)
    images, masks = root / "images", root / "masks"
    image, mask = lesion(7)
    drawn = mask.astype(np.uint8) * 255

    save(images / "lonely.png", image)
    save(masks / "orphan.png", drawn)

    save_pair(root, "cut", 8)
    save(images / "cut.jpg", image)
    (images / "cut.png").unlink()
    data = (images / "cut.jpg").read_bytes()
    (images / "cut.jpg").write_bytes(data[: len(data) // 2])

    save_pair(root, "zero", 9)
    (masks / "zero.png").write_bytes(b"")

    save_pair(root, "bomb", 10)
    (images / "bomb.png").write_bytes(bomb())

    save_pair(root, "deep", 11)
    save(images / "deep.png", image[..., 0].astype(np.uint16) * 257)

    save_pair(root, "palette", 12)
    Image.fromarray(image).quantize(32).save(images / "palette.png")

    save_pair(root, "alpha", 13)
    save(images / "alpha.png", np.concatenate([image, image[..., :1]], axis=-1))

    save_pair(root, "turned", 14)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(image).save(images / "turned.png", exif=exif)
    save(masks / "turned.png", np.rot90(drawn, -1))

    save_pair(root, "lying", 15)  # turned by EXIF, but drawn on the image as it is stored
    Image.fromarray(image).save(images / "lying.png", exif=exif)

    save_pair(root, "smeared", 16)
    (masks / "smeared.png").unlink()
    save(masks / "smeared.jpg", drawn, quality=70)

    save_pair(root, "grey", 17)
    save(images / "grey.png", image[..., 0])

    save_pair(root, "small", 18)
    save(masks / "small.png", drawn[:-3])

    save_pair(root, "many", 19)
    save(masks / "many.png", mask.astype(np.uint8) + (np.arange(48) > 40).astype(np.uint8) * 2)

    for stem in ("Mole", "mole", "Fleck-Größe", "日本 語"):
        save_pair(root, stem, 20 + len(stem) + stem.islower())

    (images / "text.png").write_text("not a picture")
    save(masks / "text.png", drawn)

    outside = root.parent / "secret.png"
    save(outside, image)
    with zipfile.ZipFile(root / "evil.zip", "w") as archive:
        archive.writestr("../escaped.png", b"x")
    with tarfile.open(root / "links.tar", "w") as archive:
        info = tarfile.TarInfo("images/x.png")
        info.type, info.linkname = tarfile.SYMTYPE, str(outside)
        archive.addfile(info)
    whole = root.parent / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.write(outside, "images/x.png")
    (root / "half.zip").write_bytes(whole.read_bytes()[:300])
    return root


ERRORS = {
    ("mask missing", "images/lonely.png"),
    ("image missing", "masks/orphan.png"),
    ("corrupt picture", "cut"),
    ("empty file", "zero"),
    ("image too large", "bomb"),
    ("sizes differ", "small"),
    ("mask values", "many"),
    ("not a picture", "text"),
    ("unsafe archive", "evil.zip"),
    ("unsafe archive", "links.tar"),
    ("half-copied archive", "half.zip"),
}
NOTES = {
    ("16-bit image", "deep"),
    ("grey where colour is due", "deep"),
    ("palette or transparency", "palette"),
    ("alpha channel", "alpha"),
    ("EXIF rotation", "turned"),
    ("EXIF rotation", "lying"),
    ("mask with values between", "smeared"),
    ("grey where colour is due", "grey"),
}


def test_everything_is_named_once_and_the_rest_is_prepared(tmp_path, bad):
    before = sorted(os.listdir(bad.parent))
    result = prepare_folder(bad, tmp_path / "out", options=Options(size=32), workers=1)
    found = {level: set() for level in ("error", "note")}
    for problem in result.problems:
        found[problem.level].add((problem.kind, problem.name))
    assert found["error"] == ERRORS
    assert found["note"] == NOTES
    assert sum(result.manifest["cases"].values()) == 14
    with (tmp_path / "out" / "problems.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(ERRORS) + len(NOTES)
    for kind, _ in ERRORS:
        assert kind in result.text()
    assert sorted(os.listdir(tmp_path)) == ["out"]
    assert sorted(os.listdir(bad.parent)) == before


def test_odd_names_survive(tmp_path, bad):
    prepare_folder(bad, tmp_path / "out", options=Options(size=32), workers=1)
    with (tmp_path / "out" / "index.csv").open(encoding="utf-8") as file:
        rows = {row["name"]: row["id"] for row in csv.DictReader(file)}
    assert {"Mole", "mole", "Fleck-Größe", "日本 語"} <= set(rows)
    assert len({i.casefold() for i in rows.values()}) == len(rows)
    assert all(name.isascii() for name in os.listdir(tmp_path / "out" / "images"))
    cases = load_folder(tmp_path / "out", cache=False)
    assert len(cases) == len(rows)


def test_exif_and_mask_agree_after_preparation(tmp_path, bad):
    prepare_folder(bad, tmp_path / "out", options=Options(size=32), workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    for stem in ("turned", "lying", "alpha", "case0"):
        place = cases.ids.index(stem)
        grey, mask = cases.images[place].mean(axis=-1), cases.masks[place].astype(bool)
        if stem != "alpha":  # its mask belongs to another lesion
            assert grey[mask].mean() < grey[~mask].mean() - 40


def test_processes_give_the_same_bytes_as_one(tmp_path, bad):
    prepare_folder(bad, tmp_path / "one", options=Options(size=32), workers=1)
    prepare_folder(bad, tmp_path / "two", options=Options(size=32), workers=2)
    assert tree_bytes(tmp_path / "one") == tree_bytes(tmp_path / "two")


def test_a_plain_load_names_all_kinds_and_the_way_out(bad):
    with pytest.raises(DataError) as caught:
        load_folder(bad, size=32, cache=False)
    text = str(caught.value)
    assert "mask missing" in text
    assert "feda3i check" in text
    assert "prepare folder" in text


def test_nothing_usable_says_why(tmp_path):
    save(tmp_path / "in" / "images" / "a.png", lesion()[0])
    with pytest.raises(DataError, match="mask missing"):
        prepare_folder(tmp_path / "in", tmp_path / "out", workers=1)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="layout unknown"):
        prepare_folder(tmp_path / "nothing", tmp_path / "out", workers=1)
    with pytest.raises(DataError, match="no folder or archive"):
        prepare_folder(tmp_path / "nowhere", tmp_path / "out", workers=1)
