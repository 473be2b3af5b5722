"""NIfTI volumes read where they lie: sizes, values and spacing as in the files."""

import numpy as np
import pytest

from data_files import plain_tree, save, save_volume
from feda3i.core.ragged import Ragged
from feda3i.data.folder import folder, load_folder
from feda3i.errors import DataError, RecipeError

pytest.importorskip("nibabel")

SHAPES = [(20, 24, 18), (22, 17, 19), (16, 30, 20)]  # x, y, z
SPACING = (0.5, 1.0, 2.0)


def volume(k):
    values = np.random.default_rng(k).normal(100.0, 10.0, SHAPES[k]) * (k + 1)
    mask = np.zeros(SHAPES[k], np.uint8)
    mask[4:12, 5:12, 6:12] = 1
    mask[4:12, 5:12, 9:12] = 2
    return np.rint(values).astype(np.int16), mask


@pytest.fixture
def scans(tmp_path):
    for k in range(3):
        for kind, values in zip(("images", "masks"), volume(k), strict=True):
            save_volume(tmp_path / "in" / kind / f"scan{k}.nii.gz", values, SPACING)
    return tmp_path / "in"


def load(scans, cache=False, **options):
    return load_folder(scans, classes=("a", "b"), cache=cache, **options)


def test_whole_volumes_keep_values_sizes_and_spacing(scans):
    cases = load(scans, volumes="whole")
    assert isinstance(cases.images, Ragged)
    assert cases.images.dtype == np.int16
    for k in range(3):
        values, mask = volume(k)
        np.testing.assert_array_equal(cases.images[k][..., 0], values.transpose(2, 1, 0))
        np.testing.assert_array_equal(cases.masks[k], mask.transpose(2, 1, 0))
    np.testing.assert_allclose(cases.spacing, [SPACING[::-1]] * 3)
    for _ in range(2):  # the cache is built, then read
        packed = load(scans, cache=True, volumes="whole")
        assert packed.digest() == cases.digest()
        assert not packed.images.flat.flags.owndata
    save_volume(scans / "images" / "scan0.nii.gz", volume(0)[0] + np.float32(0.25), SPACING)
    cases = load(scans, volumes="whole")  # fractions in one make all of them floats
    assert cases.images.dtype == np.float32
    assert cases.images[0][0, 0, 0, 0] % 1 == 0.25


def test_every_axis_can_be_that_of_the_slices(scans):
    values, _ = volume(0)
    for axis, order in enumerate([(0, 2, 1), (1, 2, 0), (2, 1, 0)]):
        whole = load(scans, volumes="whole", axis=axis)
        np.testing.assert_array_equal(whole.images[0][..., 0], values.transpose(order))
        np.testing.assert_allclose(whole.spacing[0], [SPACING[a] for a in order])
        slices = load(scans, volumes="slices", axis=axis)
        assert len(slices) == sum(shape[axis] for shape in SHAPES)


def test_resampling_by_size_or_spacing_keeps_shares_and_contrast(scans):
    expected = [(volume(k)[1] == 2).mean() for k in range(3)]
    cases = load(scans, volumes="whole", size=16, values="bytes")
    assert cases.images.shape == (3, 16, 16, 16, 1)
    np.testing.assert_allclose(cases.spacing[0] * 16, np.multiply(SPACING, SHAPES[0])[::-1])
    np.testing.assert_allclose((cases.masks == 2).mean(axis=(1, 2, 3)), expected, atol=0.01)
    cases = load(scans, volumes="whole", spacing=[1.0, 1.0, 1.0])
    assert cases.masks[0].shape == (36, 24, 10)
    np.testing.assert_allclose(cases.spacing, 1.0)
    np.testing.assert_allclose([(mask == 2).mean() for mask in cases.masks], expected, rtol=0.02)
    assert cases.images.dtype == np.float32
    np.testing.assert_allclose(cases.images[1].mean(), 200, rtol=0.01)


def test_slices_are_cases_of_one_patient(scans):
    cases = load(scans, volumes="slices")
    assert len(cases) == sum(shape[2] for shape in SHAPES)
    assert cases.ids[7] == "scan0_z07"
    values, mask = volume(0)
    np.testing.assert_array_equal(cases.images[7][..., 0], values[:, :, 7].T)
    np.testing.assert_array_equal(cases.masks[7], mask[:, :, 7].T)
    np.testing.assert_allclose(cases.spacing[0], (1.0, 0.5))
    made = folder(scans, classes=("a", "b"), volumes="slices", sites=2, size=16, cache=False)
    sides = [{i.split("_z")[0] for i in part.ids} for part in (made.train, made.test)]
    assert not sides[0] & sides[1]
    assert made.train.shape == (16, 16)


def test_spacing_must_fit(scans, tmp_path):
    for spacing in ([0, 1, 1], [1], [1, 1, float("nan")]):
        with pytest.raises(RecipeError, match=r"data\.spacing"):
            load(scans, volumes="whole", spacing=spacing)
    with pytest.raises(DataError, match="expected 2 sizes of pixels"):
        load(scans, volumes="whole", spacing=[1, 1])
    with pytest.raises(RecipeError, match="found both"):
        load(scans, volumes="whole", spacing=[1, 1, 1], size=16)
    with pytest.raises(DataError, match="found none"):
        load_folder(plain_tree(tmp_path / "flat", 1), spacing=[1, 1], cache=False)


def test_deep_pictures_keep_their_values_on_request(tmp_path):
    deep = np.linspace(0, 40000, 400).astype(np.uint16).reshape(20, 20)
    save(tmp_path / "images" / "a.png", deep)
    save(tmp_path / "masks" / "a.png", np.eye(20, dtype=np.uint8) * 255)
    kept = load_folder(tmp_path, values="kept", cache=False)
    assert kept.images.dtype == np.float32  # beyond int16
    np.testing.assert_array_equal(kept.images[0, ..., 0], deep)
    assert load_folder(tmp_path, cache=False).images.dtype == np.uint8
    resized = load_folder(tmp_path, values="kept", size=16, cache=False)
    np.testing.assert_allclose(resized.images.mean(), deep.mean(), rtol=1e-3)
