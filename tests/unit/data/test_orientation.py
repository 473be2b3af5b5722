"""EXIF: one rule for reading, a check that tells where it fails, masks that lie on their files."""

import numpy as np
import pytest
from PIL import Image

from data_files import lesion
from feda3i.data.checkup import check_data
from feda3i.data.folder import load_folder
from feda3i.reading.picture import as_stored, orientation_of, read_mask

KIND = "mask drawn before EXIF rotation"


def tagged(path, pixels, orientation):
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.squeeze(pixels)).save(path, exif=exif)


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("drawn_on", ["upright", "stored"])
def test_check_tells_masks_that_were_drawn_before_the_picture_was_turned(
    tmp_path, orientation, drawn_on
):
    for number in range(3):
        image, mask = lesion(number + 3, 48, 48)
        stored = np.asarray(as_stored(image, orientation))
        tagged(tmp_path / "images" / f"c{number}.png", stored, orientation)
        drawn = mask.astype(np.uint8)
        if drawn_on == "stored":
            drawn = np.asarray(as_stored(drawn, orientation))
        tagged(tmp_path / "masks" / f"c{number}.png", drawn * 255, 1)
        shown = load_folder(tmp_path, cache=False)
        np.testing.assert_array_equal(shown.images[number], image)  # reading has one rule
    found = {p.name for p in check_data(tmp_path, size=48).problems if p.kind == KIND}
    assert bool(found) == (drawn_on == "stored")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_predicted_mask_has_the_geometry_and_the_tag_of_the_stored_picture(tmp_path, orientation):
    _, mask = lesion(1, 40, 52)
    upright = mask.astype(np.uint8) * 255
    stored = as_stored(upright, orientation)
    tagged(tmp_path / "image.png", np.asarray(stored), orientation)
    data = (tmp_path / "image.png").read_bytes()
    assert orientation_of(data) == orientation
    with Image.open(tmp_path / "image.png") as picture:
        assert picture.size == stored.size
    np.testing.assert_array_equal(read_mask(data).pixels, mask)


def test_predict_writes_masks_that_lie_on_their_files(tmp_path, tiny_recipe, feda3i):
    from feda3i.engine.run import run

    run(tiny_recipe("rounds=1", "method=fedavg"), tmp_path / "run")
    image, _ = lesion(1, 40, 52)
    for orientation in (1, 6):
        stored = np.asarray(as_stored(image, orientation))
        tagged(tmp_path / "in" / f"o{orientation}.png", stored, orientation)
    code, _, err = feda3i("predict", tmp_path / "run", tmp_path / "in", "--out", tmp_path / "out")
    assert code == 0, err
    plain, turned = (Image.open(tmp_path / "out" / f"o{o}.png") for o in (1, 6))
    assert (plain.size, turned.size) == ((52, 40), (40, 52))
    assert turned.getexif()[0x0112] == 6
    np.testing.assert_array_equal(np.rot90(np.asarray(turned), -1), np.asarray(plain))
