import gzip

import numpy as np
import pytest

from feda3i.data.folder import folder, load_folder
from feda3i.errors import DataError
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options

nibabel = pytest.importorskip("nibabel")


def ball(shape=(20, 24, 6), seed=0):
    """Return values ``(x, y, z)`` with a bright ball, and the ball."""
    rng = np.random.default_rng(seed)
    centre = np.array(shape) / 2 - 0.5
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    mask = (((grid - centre) / (np.array(shape) * 0.3)) ** 2).sum(axis=-1) <= 1
    return (rng.normal(100, 5, shape) + 400 * mask).astype(np.float32), mask


def write_nifti(path, values, spacing=(0.5, 0.75, 3.0)):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values, np.diag([*spacing, 1.0])), path)


@pytest.fixture
def scans(tmp_path):
    for number in range(5):
        values, mask = ball(seed=number)
        write_nifti(tmp_path / "in" / "images" / f"scan{number}.nii.gz", values)
        write_nifti(tmp_path / "in" / "masks" / f"scan{number}.nii.gz", mask.astype(np.uint8))
    return tmp_path / "in"


def test_nifti_slices(tmp_path, scans):
    options = Options(size=None, window=(0, 1000))
    prepare_folder(scans, tmp_path / "out", options=options, workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    assert len(cases) == 5 * 6
    assert cases.ids[2] == "scan0_z2"
    values, mask = ball(seed=0)
    np.testing.assert_array_equal(cases.masks[2], mask[:, :, 2].T)
    exact = np.clip(values[:, :, 2].T, 0, 1000) * 255 / 1000
    assert np.abs(cases.images[2][..., 0] - exact).max() <= 0.51
    np.testing.assert_allclose(cases.spacing[0], (0.75, 0.5))


def test_slices_of_one_volume_stay_on_one_side(tmp_path, scans):
    prepare_folder(scans, tmp_path / "out", options=Options(size=16), workers=1)
    federation = folder(tmp_path / "out", sites=2, cache=False)
    sides = [{i.split("_z")[0] for i in part.ids} for part in (federation.train, federation.test)]
    assert len(sides[1]) == 1
    assert not sides[0] & sides[1]


def test_empty_slices_can_be_dropped_and_the_axis_chosen(tmp_path, scans):
    options = Options(size=None, keep_empty=False, axis=0)
    prepare_folder(scans, tmp_path / "out", options=options, workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    _, mask = ball()
    assert len(cases) == 5 * int(mask.any(axis=(1, 2)).sum())
    assert cases.shape == (6, 24)  # z rows, y columns
    assert cases.masks.any(axis=(1, 2)).all()


def test_nifti_volumes(tmp_path, scans):
    prepare_folder(scans, tmp_path / "out", options=Options(size=12, volumes=True), workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    assert cases.images.shape == (5, 12, 12, 12, 1)
    spacing = (3.0 * 6 / 12, 0.75 * 24 / 12, 0.5 * 20 / 12)
    np.testing.assert_allclose(cases.spacing[0], spacing, rtol=1e-8)
    share = ball()[1].mean()
    assert abs(cases.masks.mean() - share) < 0.03
    inside = cases.masks.astype(bool)
    assert cases.images[..., 0][inside].mean() > cases.images[..., 0][~inside].mean() + 100


def test_plain_volumes_must_be_prepared(scans):
    with pytest.raises(DataError, match="prepare folder"):
        load_folder(scans)


def test_bad_volumes_are_named(tmp_path, scans):
    images, masks = scans / "images", scans / "masks"
    values, mask = ball()
    data = (images / "scan0.nii.gz").read_bytes()
    (images / "scan0.nii.gz").write_bytes(data[: len(data) // 2])
    write_nifti(masks / "scan1.nii.gz", mask[:-1].astype(np.uint8))
    write_nifti(images / "scan2.nii.gz", np.where(mask, np.nan, values))
    header = bytearray(gzip.decompress((images / "scan3.nii.gz").read_bytes()))
    header[40:48] = np.array([3, 30000, 30000, 30000], "<i2").tobytes()
    (images / "scan3.nii.gz").write_bytes(gzip.compress(header))
    result = prepare_folder(scans, tmp_path / "out", options=Options(size=16), workers=1)
    assert {(p.kind, p.name) for p in result.problems} == {
        ("corrupt volume", "scan0"),
        ("sizes differ", "scan1"),
        ("volume values", "scan2"),
        ("volume too large", "scan3"),
    }
    assert sum(result.manifest["cases"].values()) == 6


def test_several_classes_in_a_volume(tmp_path):
    values, mask = ball()
    labels = mask.astype(np.uint8)
    labels[:3, :3] = 2
    write_nifti(tmp_path / "in" / "images" / "a.nii", values)
    write_nifti(tmp_path / "in" / "masks" / "a.nii", labels)
    options = Options(size=None, classes=("ball", "corner"))
    prepare_folder(tmp_path / "in", tmp_path / "out", options=options, workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    np.testing.assert_array_equal(cases.masks, labels.transpose(2, 1, 0))
    wrong = prepare_folder(
        tmp_path / "in",
        tmp_path / "out2",
        options=Options(size=None, classes=("a", "b", "c")),
        workers=1,
    )
    assert not wrong.problems
