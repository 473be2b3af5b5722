"""The gallery: the right cases, contours where masks are, pixels of this run or none."""

import base64
import json
import re
import shutil
from io import BytesIO

import numpy as np
from PIL import Image

from feda3i.report.gallery import LARGEST, contours, embedded, flat


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


def test_small_images_keep_every_pixel():
    image = np.arange(16 * 16 * 3).reshape(16, 16, 3).astype(np.uint8)
    assert np.array_equal(decoded(embedded(image)), image)
    grey = image[..., :1]
    assert np.array_equal(decoded(embedded(grey))[..., 1], grey[..., 0])


def test_large_images_are_made_smaller():
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
        for folder in ("images", "masks"):
            (tmp_path / "own" / folder).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (value, 80, 70)).save(
            tmp_path / "own" / "images" / f"{name}.png"
        )
        mask = Image.new("L", (32, 32), 0)
        mask.paste(255, (8, 8, 20, 20))
        mask.save(tmp_path / "own" / "masks" / f"{name}.png")
    options = ("--gallery", 5, "--data", tmp_path / "own", "--out", tmp_path / "r.html")
    code, _, err = feda3i("report", finished, *options)
    assert code == 0, err
    page = (tmp_path / "r.html").read_text("utf-8")
    assert page.count("data:image/png") == 2
    assert re.search('<path d="M[^"]*" class="given"', page)
    assert page.count('class="halo given"') == page.count('class="given"'), "seen on any colour"


def test_other_data_than_those_of_the_run_are_not_shown(feda3i, tmp_path, finished):
    run = shutil.copytree(finished, tmp_path / "run")
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    manifest["data"]["sha256"] = "0" * 64
    (run / "manifest.json").write_text(json.dumps(manifest))
    code, out, err = feda3i("report", run, "--gallery", 3)
    assert code == 0
    assert "the data of" in err
    assert "changed since the run began" in err
    assert "data:image" not in (run / "report.html").read_text("utf-8")
    assert out.strip().endswith("report.html")
