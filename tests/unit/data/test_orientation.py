"""EXIF: one rule for reading, a check that tells where it fails, masks that lie on their files."""

import numpy as np
import pytest
from PIL import Image

from data_files import lesion, save
from feda3i.data.checkup import check_data
from feda3i.data.folder import load_folder
from feda3i.reading.picture import as_stored


def tagged(path, pixels, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    save(path, pixels, exif=exif)


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize(("drawn_on", "width"), [("upright", 48), ("upright", 60), ("stored", 48)])
def test_check_tells_masks_that_were_drawn_before_the_picture_was_turned(
    tmp_path, orientation, drawn_on, width
):
    image, mask = lesion(3, 48, width)
    tagged(tmp_path / "images" / "c.png", as_stored(image, orientation), orientation)
    drawn = mask.astype(np.uint8) * 255
    drawn = drawn if drawn_on == "upright" else as_stored(drawn, orientation)
    save(tmp_path / "masks" / "c.png", drawn)
    np.testing.assert_array_equal(load_folder(tmp_path, cache=False).images[0], image)
    report = check_data(tmp_path, size=48)
    assert len(report.cases) == 1
    kinds = {problem.kind for problem in report.problems}
    assert ("mask drawn before EXIF rotation" in kinds) == (drawn_on == "stored")


def test_predict_writes_masks_that_lie_on_their_files(tmp_path, finished, feda3i):
    image, _ = lesion(1, 40, 52)
    for orientation in range(1, 9):
        tagged(tmp_path / "in" / f"o{orientation}.png", as_stored(image, orientation), orientation)
    code, _, err = feda3i("predict", finished, tmp_path / "in", "--out", tmp_path / "out")
    assert code == 0, err
    plain, *turned = (Image.open(tmp_path / "out" / f"o{o}.png") for o in range(1, 9))
    for orientation, mask in enumerate(turned, 2):
        assert mask.getexif()[0x0112] == orientation
        np.testing.assert_array_equal(mask, as_stored(np.asarray(plain), orientation))
