"""NIfTI in, NIfTI out: a model of volumes answers in the geometry of each file."""

import shutil

import numpy as np
import pytest

from data_files import save_volume
from feda3i import load_run, recipe
from feda3i.engine.run import run
from feda3i.metrics import score_case
from feda3i.seeding import rng
from feda3i.synthetic.volumes import volume_case

nibabel = pytest.importorskip("nibabel")

AFFINE = np.array([[-1.0, 0, 0, 5], [0, 1.0, 0, -7], [0, 0, 2.0, 3], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Write volumes whose slices are 2 mm apart."""
    path = tmp_path_factory.mktemp("scans")
    for k in range(5):
        image, mask = volume_case(rng(0, "files", k), 24, 2.0)
        for kind, values in (("images", image[..., 0]), ("masks", mask)):
            save_volume(path / kind / f"scan{k}.nii.gz", values.T, AFFINE)
    return path


def trained(scans, path, *more):
    tiny = [
        *("noise=none", "method=fedavg", "rounds=1", "data.sites=2", "train.epochs=1"),
        *("model.width=2", "engine.workers=1", "data.cache=false", "model.norm=group"),
    ]
    return run(recipe.load("hippocampus", [f"data={scans}", *tiny, *more]), path).path


@pytest.fixture(scope="module")
def whole(scans, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    return trained(scans, path, "train.patch=[16,16,16]", "data.spacing=[1.5,1,1]")


def test_masks_lie_on_their_images_and_evaluate_reads_volumes(feda3i, whole, scans, tmp_path):
    out = tmp_path / "out"
    code, said, err = feda3i("predict", whole, scans / "images", "--out", out)
    assert (code, "5 masks" in said) == (0, True), err
    for k in range(5):
        image = nibabel.load(scans / "images" / f"scan{k}.nii.gz")
        mask = nibabel.load(out / f"scan{k}.nii.gz")
        assert mask.shape == image.shape
        assert mask.get_data_dtype() == np.uint8
        np.testing.assert_array_equal(mask.affine, image.affine)
        assert set(np.unique(np.asarray(mask.dataobj))) <= {0, 1, 2}
    code, _, err = feda3i("predict", whole, scans / "images", "--out", out, "--overlay")
    assert (code, "in a viewer" in err) == (2, True)
    for more, words in (("--data", scans), ("5 cases", "mm")), ((), ("1 cases",)):
        code, said, err = feda3i("evaluate", whole, *more)
        assert (code, all(word in said for word in words)) == (0, True), err


def test_every_format_gives_the_same_mask_in_its_place(feda3i, whole, scans, tmp_path):
    itk = pytest.importorskip("SimpleITK")
    made = itk.ReadImage(str(scans / "images" / "scan0.nii.gz"))
    made.SetDirection(np.eye(3).ravel().tolist())
    made = itk.Cast(made, itk.sitkInt16)
    (tmp_path / "in" / "series").mkdir(parents=True)
    for name in ("a.nii", "b.nrrd", "c.mha"):
        itk.WriteImage(made, str(tmp_path / "in" / name))
    for k in range(made.GetSize()[2]):
        one = made[:, :, k : k + 1]
        place = "\\".join(map(str, made.TransformIndexToPhysicalPoint((0, 0, k))))
        for key, value in (("0008|0060", "CT"), ("0020|000e", "1.2.3"), ("0020|0032", place)):
            one.SetMetaData(key, value)
        writer = itk.ImageFileWriter()
        writer.KeepOriginalImageUIDOn()
        writer.SetFileName(str(tmp_path / "in" / "series" / f"{k}.dcm"))
        writer.Execute(one)
    code, said, err = feda3i("predict", whole, tmp_path / "in", "--out", tmp_path / "out")
    assert (code, "4 masks" in said) == (0, True), err
    first, *others = (nibabel.load(path) for path in sorted((tmp_path / "out").glob("*.nii.gz")))
    np.testing.assert_allclose(first.affine, nibabel.load(tmp_path / "in" / "a.nii").affine)
    for mask in others:
        np.testing.assert_allclose(mask.affine, first.affine, atol=1e-4)
        np.testing.assert_array_equal(mask.dataobj, first.dataobj)


def test_a_bad_volume_is_named_and_the_others_are_done(feda3i, whole, scans, tmp_path):
    save_volume(tmp_path / "in" / "bad.nii", np.full((9, 8, 7), np.nan))
    shutil.copy(scans / "images" / "scan0.nii.gz", tmp_path / "in" / "good.nii.gz")
    code, said, err = feda3i("predict", whole, tmp_path / "in", "--out", tmp_path / "out")
    assert (code, "1 masks" in said, "bad.nii" in err, "NaN" in err) == (1, True, True, True)
    assert (tmp_path / "out" / "good.nii.gz").is_file()


def test_a_run_on_slices_is_scored_by_volume(feda3i, scans, tmp_path):
    more = ("data.volumes=slices", "train.patch=[16,16]", "train.batch=16")
    path = trained(scans, tmp_path / "slices", *more)
    rows = [row for row in load_run(path).rows() if row["class"] == 1]
    out = tmp_path / "out"
    assert feda3i("predict", path, scans / "images", "--out", out)[0] == 0
    assert rows
    for row in rows:
        pair = [where / f"{row['case']}.nii.gz" for where in (out, scans / "masks")]
        made, meant = (np.asarray(nibabel.load(file).dataobj) == 1 for file in pair)
        assert row["dice"] == pytest.approx(score_case(made, meant, distances=False)["dice"])
    code, said, err = feda3i("evaluate", path)
    assert (code, "scan" in said) == (0, True), err
