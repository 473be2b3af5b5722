"""Folders as data: pixels, splits and sites as the files say; EXIF by one rule."""

import os

import numpy as np
import pytest
from PIL import Image

from data_files import lesion, plain_tree, save, save_pair
from feda3i.data.checkup import check_data
from feda3i.data.folder import Folder, folder, load_folder
from feda3i.errors import DataError, RecipeError
from feda3i.reading.picture import as_stored


@pytest.fixture(scope="module")
def skin(tmp_path_factory):
    """Return a tree {train,test}/{images,masks} of colour images."""
    root = tmp_path_factory.mktemp("skin")
    plain_tree(root / "train", 12, 0)
    for number in range(4):
        save_pair(root / "test", f"t{number}", 100 + number)
    return root


@pytest.fixture(scope="module")
def breast(tmp_path_factory):
    """Return a tree SOURCE/{images,masks}; one source has two sides of each patient."""
    root = tmp_path_factory.mktemp("breast")
    plain_tree(root / "busi", 10, 200, colour=False)
    for number in range(12):
        stem = f"bus_{number // 2:04d}-{'lr'[number % 2]}"
        save_pair(root / "busbra", stem, 300 + number, colour=False)
    return root


def test_pixels_and_ids_are_those_of_the_files(skin):
    cases = load_folder(skin, split="test", cache=False)
    assert cases.ids == ("t0", "t1", "t2", "t3")
    for number in range(4):
        image, mask = lesion(100 + number)
        np.testing.assert_array_equal(cases.images[number], image)
        np.testing.assert_array_equal(cases.masks[number], mask)


def test_several_folders_are_sites_that_set_a_fifth_aside_with_patients_whole(breast):
    federation = folder(breast, cache=False)
    assert federation.names() == ["busbra", "busi"]
    tests = federation.test
    assert [tests.sources.count(s) for s in ("busi", "busbra")] == [2, 4]  # 3 rounded to pairs
    patients = [{i[:-2] for i in part.ids if "bus_" in i} for part in (federation.train, tests)]
    assert not patients[0] & patients[1]
    runs = [folder(breast, sites=4, partition="iid", seed=s, cache=False) for s in (0, 1)]
    assert runs[0].test.ids == runs[1].test.ids  # the seed is of the sites alone
    assert runs[0].site("site-01").ids != runs[1].site("site-01").ids


def test_the_split_of_the_folder_is_kept_and_limits_draw_from_its_sites(skin):
    whole = folder(skin, sites=3, cache=False)
    assert whole.test.ids == ("t0", "t1", "t2", "t3")
    assert [len(whole.site(name)) for name in whole.names()] == [4, 4, 4]
    federation = folder(skin, sites=3, cases=2, test=3, cache=False)
    assert (len(federation.train), len(federation.test)) == (6, 3)
    for name in federation.names():
        assert set(federation.site(name).ids) < set(whole.site(name).ids)


def test_colour_if_any_image_has_it_and_sizes_must_agree_unless_one_is_given(tmp_path):
    save_pair(tmp_path, "a", 1, colour=False)
    assert load_folder(tmp_path, cache=False).channels == 1
    save_pair(tmp_path, "b", 2)
    cases = load_folder(tmp_path, cache=False)
    assert cases.channels == 3
    assert (cases.images[0] == cases.images[0][..., :1]).all()
    assert load_folder(tmp_path, channels=1, cache=False).channels == 1
    save_pair(tmp_path, "c", 2, height=30)
    with pytest.raises(DataError, match="sizes differ between cases"):
        load_folder(tmp_path, cache=False)
    assert load_folder(tmp_path, size=20, cache=False).shape == (20, 20)


def test_mistakes_say_what_to_do(tmp_path, skin):
    alone = plain_tree(tmp_path / "only" / "train", 3).parent
    (tmp_path / "empty").mkdir()
    for message, mistake in {
        "no folder": lambda: load_folder(tmp_path / "none"),
        "images/ and masks/": lambda: load_folder(tmp_path / "empty"),
        "no case in the split": lambda: load_folder(skin, split="valid", cache=False),
        "data=FOLDER": lambda: Folder().plan(),
        "use fewer sites": lambda: folder(skin, sites=13, cache=False),
        "annotators": lambda: load_folder(skin, annotators="some"),
        "no test cases": lambda: folder(alone, sites=2),
        r"data\.cases: input": lambda: folder(skin, sites=3, cases=0),
    }.items():
        with pytest.raises((DataError, RecipeError), match=message):
            mistake()


def test_file_names_with_bad_bytes_load(tmp_path):
    image, mask = lesion(3)
    for kind, pixels in (("images", image), ("masks", mask)):
        save(tmp_path / kind / "x.png", pixels)
        place = os.fsencode(tmp_path / kind)
        try:
            os.rename(place + b"/x.png", place + b"/caf\xe9.png")
        except OSError:
            pytest.skip("this file system takes UTF-8 names only")
    (name,) = load_folder(tmp_path, cache=False).ids
    assert name.isascii()


# -- EXIF: a check that tells where it fails, masks that lie on their files -----------------------


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
