"""``feda3i predict`` in every hand: no image is lost, and one bad file does not stop the rest."""

import errno
import os

import numpy as np
import pytest
from PIL import Image


def draw(path, shape=(20, 24, 3)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(path.name)).integers(0, 255, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def files(folder):
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}


@pytest.fixture
def images(tmp_path):
    for name in ("b0.bmp", "c0.png", "c1.png"):
        draw(tmp_path / "images" / name)
    return tmp_path / "images"


@pytest.mark.parametrize("extra", [(), ("--overwrite",), ("--overlay",)])
def test_the_folder_of_the_images_is_no_target(feda3i, finished, images, tmp_path, extra):
    link = tmp_path / "link"
    link.symlink_to(images)
    before = files(images)
    for source, out in ((images, images), (images, link), (images / "c1.png", images)):
        code, _, err = feda3i("predict", finished, source, "--out", out, *extra)
        assert code == 1
        assert "holds the images themselves" in err
    assert files(images) == before


def test_existing_files_are_kept_unless_the_user_says_so(feda3i, finished, images, tmp_path):
    masks = tmp_path / "masks"
    reference = draw(masks / "c1.png").read_bytes()
    code, _, err = feda3i("predict", finished, images, "--out", masks)
    assert code == 1
    assert "c1.png' already exists" in err
    assert "--overwrite" in err
    assert files(masks) == {"c1.png": reference}
    assert feda3i("predict", finished, images, "--out", masks, "--overwrite")[0] == 0
    assert files(masks)["c1.png"] != reference


def test_an_image_reached_by_a_link_is_not_replaced(feda3i, finished, images, tmp_path):
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "c1.png").symlink_to(images / "c1.png")
    before = files(images)
    code, _, err = feda3i("predict", finished, linked, "--out", images, "--overwrite")
    assert code == 1
    assert "holds the images themselves" in err
    assert files(images) == before


def test_no_two_images_share_a_mask(feda3i, finished, images, tmp_path):
    out = tmp_path / "masks"
    code, text, _ = feda3i("predict", finished, images, "--out", out, "--overlay")
    assert code == 0
    assert "3 masks" in text
    assert len(files(out)) == 6
    draw(images / "C0.bmp")
    code, _, err = feda3i("predict", finished, images, "--out", tmp_path / "more")
    assert code == 1
    assert "would be called c0.png" in err


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 1), (2000, 1, 3), (1, 2000, 3), (1, 7)])
def test_thin_images_get_masks_of_their_size(feda3i, finished, tmp_path, shape):
    draw(tmp_path / "in" / "thin.png", shape)
    out = tmp_path / "masks"
    assert feda3i("predict", finished, tmp_path / "in", "--out", out, "--overlay")[0] == 0
    for name in ("thin.png", "thin_overlay.png"):
        with Image.open(out / name) as picture:
            assert picture.size == shape[1::-1]
            assert name != "thin.png" or set(np.unique(picture)) <= {0, 255}


def test_what_cannot_be_read_is_named_and_the_rest_is_done(feda3i, finished, images, tmp_path):
    os.mkfifo(images / "pipe.png")  # reading it would wait for ever
    (images / "folder.png").mkdir()
    (images / "loop.png").symlink_to("loop.png")
    (images / "empty.png").write_bytes(b"")
    (images / "text.png").write_text("no picture")
    code, text, err = feda3i("predict", finished, images, "--out", tmp_path / "masks")
    assert code == 1
    assert "3 masks" in text
    assert "5 images were left out" in err
    for name in ("pipe", "folder", "loop", "empty", "text"):
        assert f"{name}.png: " in err
    assert sorted(files(tmp_path / "masks")) == ["b0.png", "c0.png", "c1.png"]


@pytest.mark.parametrize(("name", "words"), [("pipe.png", "found none"), ("", "holds none (")])
def test_no_image_at_all_is_an_error_and_no_hang(feda3i, finished, tmp_path, name, words):
    place = tmp_path / "in"
    place.mkdir()
    if name:
        os.mkfifo(place / name)
    code, _, err = feda3i("predict", finished, place / name, "--out", tmp_path / "masks")
    assert code == 1
    assert words in err
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
    assert code == 1
    assert "the disk is full" in err
    assert "--overwrite" in err
    assert len(files(tmp_path / "masks")) == 1
