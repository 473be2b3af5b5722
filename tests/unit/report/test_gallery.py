"""The gallery: the right cases, contours where masks are, pixels of this run or none."""

import base64
import re
import shutil
from io import BytesIO

import numpy as np
from PIL import Image

from fake_runs import change_manifest
from feda3i.engine.results import load_run
from feda3i.files import write_png
from feda3i.quality import shift_mask
from feda3i.report.compare import part
from feda3i.report.gallery import LARGEST, _redrawn, contours, drawn, embedded, flat
from feda3i.testing import tiny_federation


def decoded(address):
    return np.asarray(Image.open(BytesIO(base64.b64decode(address.partition(",")[2]))))


def test_a_contour_runs_around_the_pixels_of_a_mask():
    mask = np.zeros((8, 8), np.uint8)
    mask[2:5, 3:6] = 1
    numbers = re.findall(r"([\d.]+) ([\d.]+)", contours(mask))
    points = np.array(numbers, dtype=float)
    assert points.min(axis=0).tolist() == [3, 2], "columns from 3, rows from 2"
    assert points.max(axis=0).tolist() == [6, 5]
    mask[0, 0] = 2
    assert contours(mask).count("M") == 2, "another class, another line"
    assert contours(np.zeros((4, 4), np.uint8)) == ""
    assert contours(np.ones((4, 4), np.uint8)).count("M") == 1, "a full frame is closed"


def test_small_images_keep_every_pixel_and_large_ones_are_made_smaller():
    image = np.arange(16 * 16 * 3).reshape(16, 16, 3).astype(np.uint8)
    assert np.array_equal(decoded(embedded(image)), image)
    grey = image[..., :1]
    assert np.array_equal(decoded(embedded(grey))[..., 1], grey[..., 0])
    image = np.full((500, 1000, 3), 128, np.uint8)
    assert decoded(embedded(image)).shape == (LARGEST // 2, LARGEST, 3)


def test_of_a_volume_the_fullest_slice_is_shown():
    volume = np.zeros((5, 8, 8, 1), np.uint8)
    volume[3] = 77
    mask = np.zeros((5, 8, 8), np.uint8)
    mask[3, 2:6, 2:6] = 1
    image, masks = flat(volume, {"given": mask})
    assert image.shape == (8, 8, 1)
    assert (image == 77).all()
    assert masks["given"].sum() == 16


def test_a_site_shows_its_own_cases(feda3i, tmp_path, finished):
    for name, value in (("a", 90), ("b", 120)):
        picture, mask = np.full((32, 32, 3), value, np.uint8), np.zeros((32, 32), np.uint8)
        mask[8:20, 8:20] = 255
        write_png(tmp_path / "own" / "images" / f"{name}.png", picture)
        write_png(tmp_path / "own" / "masks" / f"{name}.png", mask)
    options = ("--gallery", 5, "--data", tmp_path / "own", "--out", tmp_path / "r.html")
    code, _, err = feda3i("report", finished, *options)
    assert code == 0, err
    page = (tmp_path / "r.html").read_text("utf-8")
    assert page.count("data:image/png") == 2
    assert re.search('<path d="M[^"]*" class="given"', page)
    assert page.count('class="halo given"') == page.count('class="given"'), "seen on any colour"


def test_other_data_than_those_of_the_run_are_not_shown(feda3i, tmp_path, finished):
    run = shutil.copytree(finished, tmp_path / "run")
    change_manifest(run, data=load_run(run).manifest["data"] | {"sha256": "0" * 64})
    code, out, err = feda3i("report", run, "--gallery", 3)
    assert code == 0
    assert "the data of" in err
    assert "changed since the run began" in err
    assert "data:image" not in (run / "report.html").read_text("utf-8")
    assert out.strip().endswith("report.html")


def test_the_gallery_shows_contours_before_and_after():
    clean = tiny_federation()
    masks = np.stack([shift_mask(mask, 2.0) for mask in clean.train.masks]).astype(np.uint8)
    federation = clean.with_masks(masks)
    moved = {"site-2": [-16.0], "site-3": [0.0], "site-1": [-8.0]}
    pictures = _redrawn(moved, federation, 3)
    assert [one.site for one in pictures] == ["site-2", "site-1", "site-2"]
    first = pictures[0]
    k = int(federation.sites["site-2"][0])
    assert first.case == federation.train.ids[k]
    assert np.array_equal(first.masks["given"], masks[k])
    assert np.array_equal(first.masks["redrawn"] > 0, shift_mask(masks[k], -2.0))
    told = r"Dice with the clean mask ([\d.]+), now ([\d.]+)"
    before, after = re.search(told, first.words).groups()
    assert float(before) < float(after)
    shown = part("strip", "Masks redrawn", map(drawn, pictures))
    assert shown.count('class="redrawn"') == shown.count('class="given"') == 3
    assert "moved -2.0 px" in shown
    assert np.array_equal(federation.train.masks, masks), "the given masks stay"
