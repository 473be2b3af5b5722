"""Files of volumes: every format gives the same voxels; what is damaged or misplaced is refused."""

import gzip
import re

import numpy as np
import pytest

from data_files import plain_tree, save, save_volume
from feda3i.core.ragged import Ragged
from feda3i.data.checkup import check_data
from feda3i.data.folder import folder, load_folder
from feda3i.errors import DataError, RecipeError
from feda3i.reading.problems import errors_of
from feda3i.reading.usage import usage_of

nibabel = pytest.importorskip("nibabel")
itk = pytest.importorskip("SimpleITK")

DIM, DATATYPE, OFFSET, PIXDIM = 40, 70, 108, 76  # positions in the header of NIfTI-1
SPACING = (0.75, 0.5, 2.0)  # x, y, z
TURN = (0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0)
VALUES = np.random.default_rng(0).integers(-900, 3000, (5, 8, 9)).astype(np.int16)  # z, y, x
MASK = np.zeros(VALUES.shape, np.uint8)
MASK[1:4, 2:6, 3:7] = 1


def image_of(values, spacing=SPACING, turn=TURN, origin=(5.0, -7.0, 3.0)):
    image = itk.GetImageFromArray(values)
    image.SetSpacing(spacing)
    image.SetDirection(turn)
    image.SetOrigin(origin)
    return image


def save_case(root, ending, image=None, mask=None):
    """Write a case and return where its image is."""
    for kind, one in (("masks", mask or image_of(MASK)), ("images", image or image_of(VALUES))):
        (root / kind).mkdir(parents=True)
        itk.WriteImage(one, str(root / kind / f"a{ending}"), useCompression=True)
    return root / "images" / f"a{ending}"


def load(root, **options):
    return load_folder(root, volumes="whole", cache=False, **options)


@pytest.mark.parametrize("ending", [".nii.gz", ".nii", ".nrrd", ".mha"])
@pytest.mark.parametrize("kind", [np.int16, np.float32, np.float64])
def test_voxels_and_spacing_do_not_depend_on_the_format(tmp_path, ending, kind):
    values = (np.abs(VALUES) + (0 if kind is np.int16 else 0.25)).astype(kind)
    save_case(tmp_path, ending, image_of(values))
    cases = load(tmp_path)
    np.testing.assert_array_equal(cases.images[0][..., 0], values)
    np.testing.assert_array_equal(cases.masks[0], MASK)
    np.testing.assert_allclose(cases.spacing[0], SPACING[::-1])


def header(place, value, dtype="<f4"):
    """Return a change of a NIfTI file."""
    new = np.array(value, dtype).tobytes()
    return lambda data: data[:place] + new + data[place + len(new) :]


def nifti(values, shear=0.0, kind=nibabel.Nifti1Image):
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    affine[0, 1] = shear
    return kind(values, affine).to_bytes()


ODD = {
    "cut at 100 bytes": lambda data: data[:100],
    "cut in its numbers": lambda data: data[:-100],
    "more than it says": lambda data: data + bytes(2**23),
    "zero dimension": header(DIM + 2, 0, "<i2"),
    "negative dimension": header(DIM + 2, -8, "<i2"),
    "two volumes": lambda _: nifti(np.zeros((9, 8, 5, 2), np.int16)),
    "nine dimensions": header(DIM, 9, "<i2"),
    "too large": header(DIM, [3, 30000, 30000, 30000], "<i2"),
    "odd datatype": header(DATATYPE, 4711, "<i2"),
    "complex": lambda _: nifti(VALUES.T.astype(np.complex64)),
    "colours": lambda _: nifti(np.zeros((9, 8, 5), [("R", "u1"), ("G", "u1"), ("B", "u1")])),
    "offset not finite": header(OFFSET, np.nan),
    "offset negative": header(OFFSET, -1e9),
    "offset beyond": header(OFFSET, 1e9),
    "values not finite": lambda _: nifti(np.full((9, 8, 5), np.nan, np.float32)),
    "one value not finite": lambda data: data[:-4] + np.float32(np.inf).tobytes(),
    "second version": lambda _: nifti(VALUES.T, kind=nibabel.Nifti2Image),
    "sheared": lambda _: nifti(VALUES.T, shear=0.3),
    "text": lambda _: b"Dear colleague",
    "nothing": lambda _: b"",
    "spacing nan": header(PIXDIM + 4, np.nan),
    "spacing zero": header(PIXDIM + 4, 0),
    "spacing negative": header(PIXDIM + 4, -1),
    "spacing infinite": header(PIXDIM + 8, np.inf),
}


@pytest.mark.parametrize(("pack", "ending"), [(bytes, ".nii"), (gzip.compress, ".nii.gz")])
def test_odd_nifti_files_are_named_and_the_rest_is_read(tmp_path, pack, ending):
    image, mask = nifti(np.float32(VALUES.T)), nifti(MASK.T)
    made = {"fine": (image, mask)}
    for stem, change in ODD.items():
        made[stem] = (change(image), mask)
        if "spacing" not in stem and "finite" not in stem:
            made[f"mask {stem}"] = (image, change(mask))
    for place, kind in enumerate(("images", "masks")):
        (tmp_path / kind).mkdir()
        for stem, both in made.items():
            (tmp_path / kind / f"{stem}{ending}").write_bytes(pack(both[place]))
    result = check_data(tmp_path)
    assert {problem.name for problem in errors_of(result.problems)} - {"."} == {*made} - {"fine"}
    assert [case.name for case in result.cases] == ["fine"]


@pytest.mark.parametrize("ending", [".nii.gz", ".nrrd", ".mha"])
def test_a_packed_file_with_a_wrong_checksum_is_refused(tmp_path, ending):
    path = save_case(tmp_path, ending)
    data = path.read_bytes()
    flipped = data[:-6] + bytes([data[-6] ^ 1]) + data[-5:]
    for broken in (data[:-60], flipped) if ending != ".mha" else (data[:-60],):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="corrupt volume"):
            load(tmp_path)


@pytest.mark.parametrize(
    ("ending", "old", "new"),
    [
        (".mha", b"ElementDataFile = LOCAL", b"ElementDataFile = /etc/passwd"),
        (".mha", b"ElementDataFile", b"ElementDataFile = /etc/passwd\nElementDataFile"),
        (".nrrd", b"encoding: gzip", b"#" * 5000 + b"\ndata file: /etc/passwd"),
        (".nrrd", b"encoding: gzip", b"encoding: raw\ndata file: /etc/passwd"),
    ],
)
def test_a_header_leads_to_no_other_file(tmp_path, ending, old, new):
    path = save_case(tmp_path, ending)
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(DataError, match="another file"):
        load(tmp_path)


ELSEWHERE = {
    "mirrored": {"turn": (0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0)},
    "shifted": {"origin": (5.0, -7.0, 4.5)},
    "swapped axes": {"turn": (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)},
    "of another spacing": {"spacing": (0.75, 0.5, 1.0)},
}


@pytest.mark.parametrize("how", ELSEWHERE)
def test_a_mask_in_another_place_is_an_error_with_both_affines(tmp_path, how):
    save_case(tmp_path, ".nii.gz", mask=image_of(MASK, **ELSEWHERE[how]))
    with pytest.raises(DataError, match="mask in another place"):
        load(tmp_path)
    with pytest.raises(DataError, match="mask in another place") as caught:
        load_folder(tmp_path, volumes="slices", cache=False)
    said = [float(number) for number in re.findall(r"-?[\d.]+(?=[ ;\]])", str(caught.value))]
    for kind in ("images", "masks"):
        rows = nibabel.load(tmp_path / kind / "a.nii.gz").affine[:3].ravel().tolist()
        assert any(said[k : k + 12] == rows for k in range(len(said)))


def write_series(folder, series="1", first=0):
    """Write four CT slices, the highest first; return their values, the lowest first."""
    values = np.abs(VALUES[:4]) - 1024
    writer = itk.ImageFileWriter()
    writer.KeepOriginalImageUIDOn()
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(4):
        image = itk.GetImageFromArray(values[number : number + 1])
        image.SetSpacing((0.75, 0.5, 2.5))
        image.SetOrigin((0.0, 0.0, 2.5 * number))
        said = {
            "0008|0060": "CT",
            "0008|0018": f"1.2.3.{series}.{number}",
            "0020|000e": f"1.2.3.{series}",
            "0020|0032": f"0\\0\\{2.5 * number}",
            "0020|0037": "1\\0\\0\\0\\1\\0",
            "0028|1052": "-1024",
            "0028|1053": "1",
        }
        for key, value in said.items():
            image.SetMetaData(key, value)
        writer.SetFileName(str(folder / f"i{first + 4 - number}.dcm"))
        writer.Execute(image)
    return values


def write_mask(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    place = (0.75, 0.5, 2.5), np.eye(3).ravel().tolist(), (0.0, 0.0, 0.0)
    itk.WriteImage(image_of(MASK[:4], *place), str(path))


@pytest.mark.parametrize(
    ("slices", "mask"),
    [("images/a", "masks/a.nii.gz"), ("a/scan", "a/mask.nrrd"), ("a", "a/mask.nii.gz")],
)
def test_a_series_is_a_volume_sorted_by_position(tmp_path, slices, mask):
    values = write_series(tmp_path / "in" / slices)
    write_mask(tmp_path / "in" / mask)
    if not slices.startswith("images"):  # one folder is a site, several beside each other are cases
        write_series(tmp_path / "in" / slices.replace("a", "b", 1))
        write_mask(tmp_path / "in" / mask.replace("a", "b", 1))
    cases = load(tmp_path / "in")
    np.testing.assert_array_equal(cases.images[0][..., 0], values)
    np.testing.assert_array_equal(cases.masks[0], MASK[:4])
    np.testing.assert_allclose(cases.spacing[0], (2.5, 0.5, 0.75))
    sliced = load_folder(tmp_path / "in", volumes="slices", cache=False)
    assert len(sliced) == 4 * len(cases)
    np.testing.assert_array_equal(sliced.images[2][..., 0], values[2])


def test_what_is_no_series_with_a_mask_is_named(tmp_path):
    site = tmp_path / "north"
    for name in ("good", "more", "bare", "two", "broken", "outlined", "deflated"):
        write_series(site / "images" / name)
        write_mask(site / "masks" / f"{name}.nii.gz")
    (site / "masks" / "bare.nii.gz").unlink()
    write_series(site / "images" / "two", series="2", first=10)
    (site / "images" / "broken" / "i2.dcm").write_bytes(b"hello")
    path = site / "images" / "deflated" / "i1.dcm"
    packed = path.read_bytes().replace(b"1.2.840.10008.1.2\0", b"1.2.840.10008.1.2.1.99")
    path.write_bytes(packed)
    (site / "masks" / "outlined.nii.gz").unlink()
    write_series(site / "masks" / "outlined")
    result = check_data(tmp_path)
    assert {(p.kind, p.name) for p in errors_of(result.problems)} == {
        *(("mask missing", f"north/images/bare/i{number}.dcm") for number in range(1, 5)),
        ("several series", "north/two"),
        ("corrupt volume", "north/broken"),
        ("mask format", "north/outlined"),
        ("compressed DICOM", "north/deflated"),
    }
    assert [case.name for case in result.cases] == ["north/good", "north/more"]
    used = usage_of(result.fates)
    assert used["north/images/good"] == {"images": 4}
    assert used["north/images/bare"] == {"mask missing": 4}


# -- read where they lie: sizes, values and spacing as in the files -------------------------------


SHAPES = [(20, 24, 18), (22, 17, 19), (16, 30, 20)]  # x, y, z
SIZES = (0.5, 1.0, 2.0)


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
            save_volume(tmp_path / "in" / kind / f"scan{k}.nii.gz", values, SIZES)
    return tmp_path / "in"


def read(scans, cache=False, **options):
    return load_folder(scans, classes=("a", "b"), cache=cache, **options)


def test_whole_volumes_keep_values_sizes_and_spacing(scans):
    cases = read(scans, volumes="whole")
    assert isinstance(cases.images, Ragged)
    assert cases.images.dtype == np.int16
    for k in range(3):
        values, mask = volume(k)
        np.testing.assert_array_equal(cases.images[k][..., 0], values.transpose(2, 1, 0))
        np.testing.assert_array_equal(cases.masks[k], mask.transpose(2, 1, 0))
    np.testing.assert_allclose(cases.spacing, [SIZES[::-1]] * 3)
    for axis, order in enumerate([(0, 2, 1), (1, 2, 0), (2, 1, 0)]):  # that of the slices
        whole = read(scans, volumes="whole", axis=axis)
        np.testing.assert_array_equal(whole.images[0][..., 0], volume(0)[0].transpose(order))
        np.testing.assert_allclose(whole.spacing[0], [SIZES[a] for a in order])
        slices = read(scans, volumes="slices", axis=axis)
        assert len(slices) == sum(shape[axis] for shape in SHAPES)
    for _ in range(2):  # the cache is built, then read
        packed = read(scans, cache=True, volumes="whole")
        assert packed.digest() == cases.digest()
        assert not packed.images.flat.flags.owndata
    save_volume(scans / "images" / "scan0.nii.gz", volume(0)[0] + np.float32(0.25), SIZES)
    cases = read(scans, volumes="whole")  # fractions in one make all of them floats
    assert cases.images.dtype == np.float32
    assert cases.images[0][0, 0, 0, 0] % 1 == 0.25


def test_resampling_by_size_or_spacing_keeps_shares_and_contrast(scans):
    expected = [(volume(k)[1] == 2).mean() for k in range(3)]
    cases = read(scans, volumes="whole", size=16, values="bytes")
    assert cases.images.shape == (3, 16, 16, 16, 1)
    np.testing.assert_allclose(cases.spacing[0] * 16, np.multiply(SIZES, SHAPES[0])[::-1])
    np.testing.assert_allclose((cases.masks == 2).mean(axis=(1, 2, 3)), expected, atol=0.01)
    cases = read(scans, volumes="whole", spacing=[1.0, 1.0, 1.0])
    assert cases.masks[0].shape == (36, 24, 10)
    np.testing.assert_allclose(cases.spacing, 1.0)
    np.testing.assert_allclose([(mask == 2).mean() for mask in cases.masks], expected, rtol=0.02)
    assert cases.images.dtype == np.float32
    np.testing.assert_allclose(cases.images[1].mean(), 200, rtol=0.01)


def test_slices_are_cases_of_one_patient(scans):
    cases = read(scans, volumes="slices")
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
            read(scans, volumes="whole", spacing=spacing)
    with pytest.raises(DataError, match="expected 2 sizes of pixels"):
        read(scans, volumes="whole", spacing=[1, 1])
    with pytest.raises(RecipeError, match="found both"):
        read(scans, volumes="whole", spacing=[1, 1, 1], size=16)
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
