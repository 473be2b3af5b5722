"""``feda3i check`` on volumes: every bad input once, and a command that a run accepts."""

import gzip
import re
import shlex
import shutil

import numpy as np
import pytest
import torch

from data_files import save_pair
from feda3i.commands.preview import division_of
from feda3i.data.check_report import report_text
from feda3i.data.checkup import check_data
from feda3i.data.run_lines import suggest_patch
from feda3i.models.unet import UNet
from feda3i.reading.usage import usage_of
from feda3i.recipe import load

nibabel = pytest.importorskip("nibabel")

SHAPE = (20, 34, 18)  # x, y, z: a case is (18, 34, 20)
PIXDIM = 76  # position in the header of NIfTI-1


def made(values, affine=(1.0, 1.0, 2.0)):
    affine = affine if affine is None else np.diag([*affine, 1.0])
    return nibabel.Nifti1Image(values, affine)


def write(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(image, path)


def drawn(seed, shape=SHAPE):
    rng = np.random.default_rng(seed)
    mask = np.zeros(shape, np.uint8)
    mask[4:10, 5:14, 3:9] = 1
    mask[4:10, 14:20, 3:9] = 2
    return np.rint(rng.normal(100, 20, shape) + 40 * mask).astype(np.int16), mask


def add(site, name, image=None, mask=None, seed=50):
    """Write a case; what is not given is fine."""
    values, labels = drawn(seed)
    write(site / "images" / f"{name}.nii.gz", made(values) if image is None else image)
    write(site / "masks" / f"{name}.nii.gz", made(labels) if mask is None else mask)


@pytest.fixture
def hospitals(tmp_path):
    """Return two hospitals with three volumes each, of two classes."""
    for place, site in enumerate(("anna", "mercy")):
        for k in range(3):
            add(tmp_path / "Dr Huber" / site, f"scan{k}", seed=10 * place + k)
    return tmp_path / "Dr Huber"


def examine(root, **options):
    return check_data(root, **options)


def found(report, level):
    return {(p.kind, p.name) for p in report.problems if p.level == level}


def test_good_volumes_are_fit_and_described(hospitals):
    report = examine(hospitals)
    assert report.is_fit
    assert not report.problems
    text = report_text(report)
    for words in (
        "per folder         2, 2 training cases",
        "6 images and 6 masks used, 0 not used",
        "18 x 34 x 20 voxels (slice x row x column), 2 x 1 x 1 mm",
        "mask values        0, 1, 2 for 2 class(es)",
    ):
        assert words in text


def nan(values):
    values = values.astype(np.float32)
    values[0, 0, 0] = np.nan
    return made(values)


def shifted(labels):
    image = made(labels)
    affine = image.affine.copy()
    affine[0, 3] = 7.0
    return nibabel.Nifti1Image(labels, affine)


def relabelled(value):
    return made(np.where(LABELS == 2, np.int16(value), LABELS))


VALUES, LABELS = drawn(99)
ERRORS = {
    "volume values": {"image": nan(VALUES)},
    "sizes differ": {"mask": made(LABELS[:-1])},
    "mask in another place": {"mask": shifted(LABELS)},
    "not a volume": {"image": made(np.stack([VALUES, VALUES], -1))},
    "mask values": {"mask": made(LABELS * np.float32(0.5))},
}
NOTES = {
    "empty mask": {"mask": made(np.zeros(SHAPE, np.uint8))},
    "mask without geometry": {"mask": made(LABELS, None)},
}


@pytest.mark.parametrize("kind", ERRORS)
def test_each_defect_is_an_error_that_names_the_case(hospitals, kind):
    add(hospitals / "anna", "bad", **ERRORS[kind])
    report = examine(hospitals)
    assert found(report, "error") == {(kind, "anna/bad")}
    assert "first error: anna/bad: " in report_text(report)


@pytest.mark.parametrize("value", [44, 255, 300])
def test_a_stray_value_among_classes_is_an_error(hospitals, value):
    add(hospitals / "anna", "bad", mask=relabelled(value))
    report = examine(hospitals)
    assert len(report.classes) == 2
    assert found(report, "error") == {("mask values", "anna/bad")}


def test_values_that_are_no_classes_are_errors_of_every_case(tmp_path):
    for k in range(3):
        grey = np.where(LABELS == 1, 128, LABELS // 2 * 255).astype(np.uint8)
        add(tmp_path / "north", f"c{k}", mask=made(grey), seed=k)
    assert len(found(examine(tmp_path), "error")) == 3


@pytest.mark.parametrize("kind", NOTES)
def test_what_a_run_survives_is_a_note_that_names_the_case(hospitals, kind):
    add(hospitals / "anna", "odd", **NOTES[kind])
    report = examine(hospitals)
    assert report.is_fit
    assert found(report, "note") == {(kind, "anna/odd")}


@pytest.mark.parametrize("side", [0.0, -1.0, np.nan])
def test_a_spacing_that_is_none_is_an_error(hospitals, side):
    file = hospitals / "mercy" / "images" / "scan1.nii.gz"
    data = gzip.decompress(file.read_bytes())
    wrong = data[: PIXDIM + 4] + np.array(side, "<f4").tobytes() + data[PIXDIM + 8 :]
    file.write_bytes(gzip.compress(wrong))
    assert found(examine(hospitals), "error") == {("spacing", "mercy/scan1")}


def test_broken_missing_and_foreign_files_are_named(hospitals):
    whole = (hospitals / "anna" / "images" / "scan0.nii.gz").read_bytes()
    (hospitals / "anna" / "images" / "scan0.nii.gz").write_bytes(whole[:400])
    (hospitals / "mercy" / "images" / "scan2.nii.gz").write_bytes(b"")
    (hospitals / "anna" / "masks" / "scan1.nii.gz").unlink()
    (hospitals / "mercy" / "images" / "old.mhd").write_bytes(b"NDims = 3")
    save_pair(hospitals / "mercy", "screenshot")
    report = examine(hospitals)
    assert found(report, "error") == {
        ("corrupt volume", "anna/scan0"),
        ("empty file", "mercy/scan2"),
        ("mask missing", "anna/images/scan1.nii.gz"),
        ("format not read", "mercy/images/old.mhd"),
        ("picture among volumes", "mercy/screenshot"),
    }
    rows = usage_of(report.fates)
    assert rows["anna/images"] == {"images": 1, "corrupt volume": 1, "mask missing": 1}
    allowed = examine(hospitals, unused="allow")
    assert ("mask missing", "anna/images/scan1.nii.gz") in found(allowed, "note")
    assert "data.unused=allow" in report_text(allowed)


def test_nothing_that_can_be_read_is_a_report_and_no_crash(tmp_path):
    add(tmp_path, "one", image=nan(VALUES))
    report = examine(tmp_path)
    assert ("no cases", ".") in found(report, "error")
    assert "fit for training   NO" in report_text(report)


@pytest.mark.parametrize(
    ("values", "classes"),
    [((0, 1), 1), ((0, 255), 1), ((0, 1, 2), 2), ((0, 1, 3), 3)],
)
def test_classes_are_found_in_the_masks(tmp_path, values, classes):
    for k in range(3):
        mask = np.zeros(SHAPE, np.uint8)
        for place, value in enumerate(values):
            mask[2 * place : 2 * place + 2, 4:9, 4:9] = value
        add(tmp_path / "north", f"c{k}", mask=made(mask), seed=k)
    assert len(examine(tmp_path).classes) == classes


def test_names_of_classes_are_taken_or_must_fit(hospitals):
    named = examine(hospitals, classes=["head", "tail"])
    assert named.classes == ("head", "tail")
    assert 'data.classes=["head","tail"]' in report_text(named)
    one = examine(hospitals, classes=["all"])
    assert {kind for kind, _ in found(one, "error")} >= {"mask values"}


def options_of(line):
    words = shlex.split(line.split("feda3i run ")[1])
    return load(words[0], words[1:])


@pytest.mark.parametrize("several", [True, False])
def test_a_run_accepts_the_suggested_command(hospitals, several):
    run, audit = examine(hospitals if several else hospitals / "anna").commands
    recipe = options_of(run)
    plan = division_of(recipe)
    assert len(plan.parts) == 2
    assert plan.listing.read(plan.train[0]).mask.max() == 2
    assert recipe.train.patch == [16, 32, 16]
    assert ("feda3i audit" in audit) == several


def test_thin_volumes_are_cut_along_their_thin_side(tmp_path):
    for k in range(3):
        values, labels = drawn(k)
        thin = {"image": made(values[4:9], (6.0, 1.0, 1.0)), "mask": made(labels[4:9], (6, 1, 1))}
        add(tmp_path / "north", f"c{k}", **thin)
    recipe = options_of(examine(tmp_path).commands[0])
    case = division_of(recipe)
    read = case.listing.read(case.train[0])
    assert read.mask.shape == (18, 34)  # z and y
    assert tuple(recipe.train.patch) == (16, 32)


def test_patches_fit_and_stay_small():
    assert suggest_patch((10, 40, 40)) == (16, 32, 32)
    assert suggest_patch((300, 300, 300)) == (64, 64, 64)
    tiny = suggest_patch((10, 18, 14))
    assert UNet(1, 1, width=2, dimensions=3, norm="instance")(torch.zeros(1, 1, *tiny)).ndim == 5
    deep = suggest_patch((60, 512, 512), (5, 0.8, 0.8))
    assert deep[0] < deep[1] == deep[2]


def test_tables_of_volumes_are_checked_too(hospitals):
    names = [f"anna/{kind}/scan{k}.nii.gz" for k in range(3) for kind in ("images", "masks")]
    rows = [f"{names[2 * k]},{names[2 * k + 1]},north" for k in range(3)]
    table = hospitals / "cases.csv"
    table.write_text("\n".join(["image,mask,site", *rows]))
    shutil.rmtree(hospitals / "mercy")
    report = examine(table)
    assert report.is_fit
    assert re.search(r"north +2 +1 ", report_text(report))
    assert f"data={table}" in report.commands[0]
