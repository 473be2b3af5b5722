"""``feda3i check``: what is wrong is named, and a run accepts the command that it prints."""

import shlex

import numpy as np
import pytest
import torch

from data_files import lesion, plain_tree, save, save_pair, save_volume
from feda3i.commands.preview import division_of
from feda3i.data.check_report import report_text, summary_text
from feda3i.data.checkup import check_data, suggest_patch
from feda3i.models.unet import UNet
from feda3i.reading.usage import usage_of
from feda3i.recipe import load


def found(report, level=None):
    return {(p.kind, p.name) for p in report.problems if level in (None, p.level)}


@pytest.fixture
def clinic(tmp_path):
    """Return a folder with train and test that is fine."""
    plain_tree(tmp_path / "Dr Huber" / "train", 5)
    plain_tree(tmp_path / "Dr Huber" / "test", 3, first=50)
    return tmp_path / "Dr Huber"


def test_a_good_folder_is_fit(clinic, feda3i):
    report = check_data(clinic)
    assert not report.problems
    shares = [lesion(seed)[1].mean() for seed in (*range(5), 50, 51, 52)]
    text = summary_text(report)
    for line in (
        "fit for training   yes",
        "cases              5 train, 3 test (as the folder says)",
        "images             3 channel(s); 8 of 40x48",
        "mask values        0, 1 for 1 class(es)",
        f"foreground         median {np.median(shares):.1%}, from {min(shares):.1%}",
    ):
        assert line in text
    code, out, _ = feda3i("check", clinic)
    assert (code, text in out, "names" in out) == (0, True, False)


def test_every_defect_is_found(clinic):
    images, masks = clinic / "train" / "images", clinic / "train" / "masks"
    save(images / "lonely.png", lesion(9)[0])
    save_pair(clinic / "train", "other size", 10, height=50)
    drawn = {"empty": [0], "full": [255], "labels": range(4)}
    for number, (name, values) in enumerate(drawn.items()):
        save(images / f"{name}.png", lesion(11 + number)[0])
        save(masks / f"{name}.png", np.resize(np.uint8(values), (40, 48)))
    save_pair(clinic / "train", "cut", 14)
    (images / "cut.png").write_bytes((images / "cut.png").read_bytes()[:500])
    report = check_data(clinic)
    assert not report.is_fit
    assert found(report, "error") == {
        ("mask missing", "train/images/lonely.png"),
        ("sizes differ between cases", "train/other size"),
        ("mask values", "train/labels"),
        ("corrupt picture", "train/cut"),
    }
    assert found(report, "note") == {("empty mask", "train/empty"), ("full mask", "train/full")}
    assert "lonely" in report_text(report)
    sized = check_data(clinic, size=32)
    assert ("sizes differ between cases", "train/other size") not in found(sized)


def test_the_same_image_twice_is_told_and_worse_across_the_split(clinic):
    save_pair(clinic / "train", "copy", 2)
    save_pair(clinic / "test", "leak", 3)
    report = check_data(clinic)
    assert report.is_fit
    assert found(report) == {
        ("same image", "train/case2"),
        ("same image across train and test", "train/case3"),
    }
    assert "2 pairs, 1 of them across train and test, which flatters" in summary_text(report)


def test_the_mailed_summary_holds_no_names(clinic, tmp_path, feda3i):
    save(clinic / "train" / "images" / "Anna Huber 1961.png", lesion(9)[0])
    mail, problems = tmp_path / "mail" / "summary.txt", tmp_path / "all.csv"
    code, out, _ = feda3i("check", clinic, "--mail", mail, "--problems", problems)
    assert code == 1
    mailed = mail.read_text("utf-8")
    assert "fit for training   NO" in mailed
    for name in ("Huber", "Anna", "case0", "train/", str(tmp_path)):
        assert name not in mailed
    assert "Anna Huber 1961" in problems.read_text("utf-8")
    assert "mask missing" in out


def test_nothing_to_learn_and_nothing_to_test(tmp_path):
    save(tmp_path / "train" / "images" / "c.png", lesion(1)[0])
    save(tmp_path / "train" / "masks" / "c.png", np.zeros((40, 48), np.uint8))
    report = check_data(tmp_path)
    assert ("all masks empty or full", ".") in found(report, "error")
    assert ("no test cases", ".") in found(report, "note")


# -- volumes --------------------------------------------------------------------------------------


SHAPE = (20, 34, 18)  # x, y, z: a case is (18, 34, 20)


def drawn(seed, shape=SHAPE):
    rng = np.random.default_rng(seed)
    mask = np.zeros(shape, np.uint8)
    mask[4:10, 5:14, 3:9] = 1
    mask[4:10, 14:20, 3:9] = 2
    return np.rint(rng.normal(100, 20, shape) + 40 * mask).astype(np.int16), mask


def add(site, name, image=None, mask=None, seed=50):
    """Write a case of values, or of values and an affine; what is not given is fine."""
    for kind, own, fine in zip(("images", "masks"), (image, mask), drawn(seed), strict=True):
        values, *affine = (fine,) if own is None else own if isinstance(own, tuple) else (own,)
        save_volume(site / kind / f"{name}.nii.gz", values, *affine)


@pytest.fixture
def hospitals(tmp_path):
    """Return two hospitals with three volumes each, of two classes."""
    pytest.importorskip("nibabel")
    for place, site in enumerate(("anna", "mercy")):
        for k in range(3):
            add(tmp_path / "Dr Huber" / site, f"scan{k}", seed=10 * place + k)
    return tmp_path / "Dr Huber"


def test_good_volumes_are_fit_and_described(hospitals):
    report = check_data(hospitals)
    assert not report.problems
    text = report_text(report)
    for words in (
        "per folder         2, 2 training cases",
        "6 images and 6 masks used, 0 not used",
        "18 x 34 x 20 voxels (slice x row x column), 2 x 1 x 1 mm",
        "mask values        0, 1, 2 for 2 class(es)",
    ):
        assert words in text
    named = check_data(hospitals, classes=["head", "tail"])
    assert 'data.classes=["head","tail"]' in report_text(named)
    one = check_data(hospitals, classes=["all"])
    assert {kind for kind, _ in found(one, "error")} >= {"mask values"}


LABELS = drawn(99)[1]
DEFECTS = [
    ("error", "sizes differ", LABELS[:-1]),
    ("error", "mask values", LABELS * np.float32(0.5)),
    *(("error", "mask values", np.where(LABELS == 2, np.int16(v), LABELS)) for v in (44, 300)),
    ("note", "empty mask", np.zeros(SHAPE, np.uint8)),
    ("note", "mask without geometry", (LABELS, None)),
]


@pytest.mark.parametrize(("level", "kind", "mask"), DEFECTS)
def test_each_defect_is_told_with_its_case(hospitals, level, kind, mask):
    add(hospitals / "anna", "bad", mask=mask)
    report = check_data(hospitals)
    assert found(report, level) == {(kind, "anna/bad")}
    assert len(report.classes) == 2
    assert report.is_fit == (level == "note")
    assert ("first error: anna/bad: " in report_text(report)) == (level == "error")


def test_broken_missing_and_foreign_files_are_named(hospitals):
    whole = (hospitals / "anna" / "images" / "scan0.nii.gz").read_bytes()
    (hospitals / "anna" / "images" / "scan0.nii.gz").write_bytes(whole[:400])
    (hospitals / "mercy" / "images" / "scan2.nii.gz").write_bytes(b"")
    (hospitals / "anna" / "masks" / "scan1.nii.gz").unlink()
    (hospitals / "mercy" / "images" / "old.mhd").write_bytes(b"NDims = 3")
    save_pair(hospitals / "mercy", "screenshot")
    report = check_data(hospitals)
    assert found(report, "error") == {
        ("corrupt volume", "anna/scan0"),
        ("empty file", "mercy/scan2"),
        ("mask missing", "anna/images/scan1.nii.gz"),
        ("format not read", "mercy/images/old.mhd"),
        ("picture among volumes", "mercy/screenshot"),
    }
    rows = usage_of(report.fates)
    assert rows["anna/images"] == {"images": 1, "corrupt volume": 1, "mask missing": 1}
    allowed = check_data(hospitals, unused="allow")
    assert ("mask missing", "anna/images/scan1.nii.gz") in found(allowed, "note")
    assert "data.unused=allow" in report_text(allowed)
    for kind in ("images", "masks"):  # nothing that can be read is a report and no crash
        for file in hospitals.glob(f"*/{kind}/*.gz"):
            file.write_bytes(b"")
    report = check_data(hospitals)
    assert ("no cases", ".") in found(report, "error")
    assert "fit for training   NO" in report_text(report)


@pytest.mark.parametrize(
    ("values", "classes"),
    [((0, 1), 1), ((0, 255), 1), ((0, 1, 2), 2), ((0, 1, 3), 3), ((0, 128, 255), None)],
)
def test_classes_are_found_in_the_masks(tmp_path, values, classes):
    for k in range(3):
        mask = np.zeros(SHAPE, np.uint8)
        for place, value in enumerate(values):
            mask[2 * place : 2 * place + 2, 4:9, 4:9] = value
        add(tmp_path / "north", f"c{k}", mask=mask, seed=k)
    report = check_data(tmp_path)
    assert len(found(report, "error")) == (0 if classes else 3)
    assert len(report.classes) == (classes or 1)


def plan_of(line):
    words = shlex.split(line.split("feda3i run ")[1])
    recipe = load(words[0], words[1:])
    plan = division_of(recipe)
    return recipe, plan, plan.listing.read(plan.train[0]).mask


@pytest.mark.parametrize("several", [True, False])
def test_a_run_accepts_the_suggested_command(hospitals, several):
    run, audit = check_data(hospitals if several else hospitals / "anna").commands
    recipe, plan, mask = plan_of(run)
    assert (len(plan.parts), mask.max()) == (2, 2)
    assert recipe.train.patch == [16, 32, 16]
    assert ("feda3i audit" in audit) == several


def test_thin_volumes_are_cut_along_their_thin_side(tmp_path):
    for k in range(3):
        image, mask = ((values[4:9], (6.0, 1.0, 1.0)) for values in drawn(k))
        add(tmp_path / "north", f"c{k}", image, mask)
    recipe, _, mask = plan_of(check_data(tmp_path).commands[0])
    assert mask.shape == (18, 34)  # z and y
    assert tuple(recipe.train.patch) == (16, 32)


def test_patches_fit_and_stay_small():
    assert suggest_patch((10, 40, 40)) == (16, 32, 32)
    tiny = suggest_patch((10, 18, 14))
    assert UNet(1, 1, width=2, dimensions=3, norm="instance")(torch.zeros(1, 1, *tiny)).ndim == 5


def test_tables_of_volumes_are_checked_too(hospitals):
    rows = [f"anna/images/scan{k}.nii.gz,anna/masks/scan{k}.nii.gz,north" for k in range(3)]
    table = hospitals / "cases.csv"
    table.write_text("\n".join(["image,mask,site", *rows]))
    report = check_data(table)
    assert report.is_fit
    assert f"data={table}" in report.commands[0]
