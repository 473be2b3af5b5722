"""``feda3i predict`` in every hand: no image is lost, and one bad file does not stop the rest."""

import errno
import os

import numpy as np
import pytest
from PIL import Image

from data_files import save


def draw(path, shape=(20, 24, 3)):
    save(path, np.random.default_rng(len(path.name)).integers(0, 255, shape, dtype=np.uint8))
    return path


def files(folder):
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}


@pytest.fixture
def images(tmp_path):
    for name in ("b0.bmp", "c0.png", "c1.png"):
        draw(tmp_path / "images" / name)
    return tmp_path / "images"


@pytest.mark.parametrize("extra", [(), ("--overwrite",), ("--overlay",)])
def test_images_are_never_replaced(feda3i, finished, images, tmp_path, extra):
    link, linked = tmp_path / "link", tmp_path / "linked"
    link.symlink_to(images)
    linked.mkdir()
    (linked / "c1.png").symlink_to(images / "c1.png")
    before = files(images)
    sources = ((images, images), (images, link), (images / "c1.png", images), (linked, images))
    for source, out in sources:
        code, _, err = feda3i("predict", finished, source, "--out", out, *extra)
        assert (code, "holds the images themselves" in err) == (1, True)
    assert files(images) == before


def test_other_files_are_kept_unless_the_user_says_so(feda3i, finished, images, tmp_path):
    masks = tmp_path / "masks"
    reference = draw(masks / "c1.png").read_bytes()
    code, _, err = feda3i("predict", finished, images, "--out", masks)
    assert (code, "c1.png' already exists" in err, "--overwrite" in err) == (1, True, True)
    assert files(masks) == {"c1.png": reference}
    code, text, _ = feda3i("predict", finished, images, "--out", masks, "--overwrite", "--overlay")
    assert (code, "3 masks" in text, len(files(masks))) == (0, True, 6)
    assert files(masks)["c1.png"] != reference
    draw(images / "C0.bmp")
    code, _, err = feda3i("predict", finished, images, "--out", tmp_path / "more")
    assert (code, "would be called c0.png" in err) == (1, True)


def test_thin_images_get_masks_of_their_size(feda3i, finished, tmp_path):
    shapes = [(1, 1, 3), (1, 1), (2000, 1, 3), (1, 2000, 3), (1, 7)]
    for number, shape in enumerate(shapes):
        draw(tmp_path / "in" / f"{number}.png", shape)
    out = tmp_path / "masks"
    assert feda3i("predict", finished, tmp_path / "in", "--out", out, "--overlay")[0] == 0
    for number, shape in enumerate(shapes):
        with Image.open(out / f"{number}.png") as mask:
            assert mask.size == Image.open(out / f"{number}_overlay.png").size == shape[1::-1]
            assert set(np.unique(mask)) <= {0, 255}


def test_what_cannot_be_read_is_named_and_the_rest_is_done(feda3i, finished, images, tmp_path):
    os.mkfifo(images / "pipe.png")  # reading it would wait for ever
    (images / "folder.png").mkdir()
    (images / "loop.png").symlink_to("loop.png")
    (images / "empty.png").write_bytes(b"")
    (images / "text.png").write_text("no picture")
    code, text, err = feda3i("predict", finished, images, "--out", tmp_path / "masks")
    assert (code, "3 masks" in text) == (1, True)
    assert "5 images were left out" in err
    for name in ("pipe", "folder", "loop", "empty", "text"):
        assert f"{name}.png: " in err
    assert sorted(files(tmp_path / "masks")) == ["b0.png", "c0.png", "c1.png"]


def test_no_image_at_all_is_an_error_and_no_hang(feda3i, finished, tmp_path):
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    for name, words in (("pipe.png", "found none"), ("in", "holds none (")):
        code, _, err = feda3i("predict", finished, tmp_path / name, "--out", tmp_path / "masks")
        assert (code, words in err) == (1, True)
    assert not (tmp_path / "masks").exists()


def test_a_full_disk_says_what_to_do(feda3i, finished, images, tmp_path, monkeypatch):
    written = []

    def full_after_one(path, data, **_):
        if written:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        written.append(path)
        path.write_bytes(data)

    monkeypatch.setattr("feda3i.files.write_file", full_after_one)
    code, _, err = feda3i("predict", finished, images, "--out", tmp_path / "masks")
    assert (code, "the disk is full" in err, "--overwrite" in err) == (1, True, True)
    assert len(files(tmp_path / "masks")) == 1
