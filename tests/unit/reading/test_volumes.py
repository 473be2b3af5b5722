import gzip

import numpy as np
import pytest

from feda3i.data.checkup import check_data
from feda3i.data.folder import folder, load_folder
from feda3i.reading.problems import errors_of

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
    cases = load_folder(scans, volumes="slices", cache=False)
    assert len(cases) == 5 * 6
    assert cases.ids[2] == "scan0_z2"
    values, mask = ball(seed=0)
    np.testing.assert_array_equal(cases.masks[2], mask[:, :, 2].T)
    np.testing.assert_array_equal(cases.images[2][..., 0], values[:, :, 2].T)
    np.testing.assert_allclose(cases.spacing[0], (0.75, 0.5))


def test_slices_of_one_volume_stay_on_one_side(tmp_path, scans):
    federation = folder(scans, volumes="slices", sites=2, size=16, cache=False)
    sides = [{i.split("_z")[0] for i in part.ids} for part in (federation.train, federation.test)]
    assert len(sides[1]) == 1
    assert not sides[0] & sides[1]


def test_nifti_volumes(tmp_path, scans):
    cases = load_folder(scans, size=12, volumes="whole", values="bytes", cache=False)
    assert cases.images.shape == (5, 12, 12, 12, 1)
    spacing = (3.0 * 6 / 12, 0.75 * 24 / 12, 0.5 * 20 / 12)
    np.testing.assert_allclose(cases.spacing[0], spacing, rtol=1e-8)
    share = ball()[1].mean()
    assert abs(cases.masks.mean() - share) < 0.03
    inside = cases.masks.astype(bool)
    assert cases.images[..., 0][inside].mean() > cases.images[..., 0][~inside].mean() + 100


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
    result = check_data(scans, measure=False)
    assert {(p.kind, p.name) for p in errors_of(result.problems)} == {
        ("corrupt volume", "scan0"),
        ("sizes differ", "scan1"),
        ("volume values", "scan2"),
        ("volume too large", "scan3"),
        ("no train cases", "."),
    }
    assert len(result.cases) == 1


def test_several_classes_in_a_volume(tmp_path):
    values, mask = ball()
    labels = mask.astype(np.uint8)
    labels[:3, :3] = 2
    write_nifti(tmp_path / "in" / "images" / "a.nii", values)
    write_nifti(tmp_path / "in" / "masks" / "a.nii", labels)
    cases = load_folder(tmp_path / "in", volumes="whole", classes=("ball", "corner"), cache=False)
    np.testing.assert_array_equal(cases.masks[0], labels.transpose(2, 1, 0))
