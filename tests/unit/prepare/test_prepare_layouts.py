import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from data_files import (
    breast_tree,
    isic_tree,
    lesion,
    plain_tree,
    save,
    save_pair,
    tar_folder,
    tree_bytes,
    zip_folder,
)
from feda3i.core.resize import resize_image, resize_mask
from feda3i.data.folder import load_folder
from feda3i.datasets.breast import breast, find_breast, prepare_breast
from feda3i.datasets.isic2017 import isic2017, prepare_isic2017
from feda3i.errors import DataError
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options


def rows_of(folder):
    with (folder / "index.csv").open(encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def kinds_of(result):
    return sorted({problem.kind for problem in result.problems})


def pack_isic(tree, target, how):
    """Bring the four folders into the form they are downloaded in."""
    target.mkdir()
    for folder in sorted(tree.iterdir()):
        if how == "zip":
            zip_folder(folder, target / f"{folder.name}.zip")
        elif how == "tar.gz":
            tar_folder(folder, target / f"{folder.name}.tar.gz")
        else:
            shutil.copytree(folder, target / folder.name)
    return target


@pytest.fixture(scope="module")
def isic(tmp_path_factory):
    return isic_tree(tmp_path_factory.mktemp("isic"))


@pytest.mark.parametrize("how", ["folder", "zip", "tar.gz"])
def test_isic_from_folders_and_archives_is_the_same_set(tmp_path, isic, how):
    source = pack_isic(isic, tmp_path / "in", how)
    result = prepare_isic2017(source, tmp_path / "out", size=32, workers=1)
    assert kinds_of(result) == ["set incomplete"]  # 3 of 2,000
    assert result.manifest["cases"] == {"train": 3, "test": 2}
    rows = rows_of(tmp_path / "out")
    assert sorted(rows) == [
        *(f"isic2017_ISIC_{n:07d}" for n in (0, 1, 2)),
        *(f"isic2017_ISIC_{n:07d}" for n in (100, 101)),
    ]
    row = rows["isic2017_ISIC_0000001"]
    assert row["original_size"] == "37x50"
    assert row["split"] == "train"
    assert (tmp_path / "out" / ".scratch").exists() is False
    direct = prepare_isic2017(isic, tmp_path / "direct", size=32, workers=1)
    assert result.manifest["sha256"] == direct.manifest["sha256"]
    assert tree_bytes(tmp_path / "out") == tree_bytes(tmp_path / "direct")


def test_prepared_pixels_are_the_area_means_of_the_published_ones(tmp_path, isic):
    prepare_isic2017(isic, tmp_path / "out", size=16, aspect="crop", workers=1)
    stem = "ISIC_0000002"
    image = np.asarray(Image.open(isic / "ISIC-2017_Training_Data" / f"{stem}.jpg"))
    found = np.asarray(Image.open(tmp_path / "out" / "images" / f"isic2017_{stem}.png"))
    np.testing.assert_array_equal(found, resize_image(image, (16, 16), "crop"))
    _, mask = lesion(2, 38, 50)
    drawn = Image.open(tmp_path / "out" / "masks" / f"isic2017_{stem}.png")
    assert drawn.mode == "1"
    np.testing.assert_array_equal(
        np.asarray(drawn), resize_mask(mask.astype(np.uint8), (16, 16), "crop")
    )


def test_isic_loads_with_the_official_split(tmp_path, isic):
    prepare_isic2017(isic, tmp_path / "out", size=32, workers=1)
    federation = isic2017(tmp_path / "out", sites=3, cache=False)
    assert federation.names() == ["site-01", "site-02", "site-03"]
    assert len(federation.test) == 2
    assert federation.train.images.shape == (3, 32, 32, 3)
    assert federation.notes["licence"].startswith("CC-0")
    with pytest.raises(DataError, match="feda3i prepare isic2017"):
        isic2017()


def test_breast_merges_masks_and_leaves_normals_out(tmp_path):
    source = breast_tree(tmp_path / "in")
    result = prepare_breast(source, tmp_path / "out", size=40, workers=1)
    rows = rows_of(tmp_path / "out")
    assert result.manifest["sources"] == {"busi": 10, "busis": 5, "udiat": 5}
    assert result.manifest["cases"] == {"train": 16, "test": 4}  # 2 + 1 + 1 set aside
    first = rows["busi_benign_1"]
    assert first["name"] == "busi/benign (1)"
    merged = np.asarray(Image.open(tmp_path / "out" / "masks" / "busi_benign_1.png"))
    assert merged[:5, :3].all()  # of the second mask
    assert merged[20, 20:30].any()  # of the first
    with_normals = prepare_breast(source, tmp_path / "all", size=40, normals=True, workers=1)
    assert with_normals.manifest["sources"]["busi"] == 12
    assert not np.asarray(Image.open(tmp_path / "all" / "masks" / "busi_normal_1.png")).any()


def test_breast_from_archives_and_as_a_federation(tmp_path):
    tree = breast_tree(tmp_path / "tree")
    for name in ("Dataset_BUSI_with_GT", "BUSIS", "UDIAT"):
        zip_folder(tree / name, tmp_path / "in" / f"{name}.zip")
    packed = prepare_breast(tmp_path / "in", tmp_path / "out", size=32, workers=1)
    plain = prepare_breast(tree, tmp_path / "out2", size=32, workers=1)
    assert packed.manifest["sha256"] == plain.manifest["sha256"]
    federation = breast(tmp_path / "out", sites=4, cache=False)
    assert federation.train.channels == 1
    assert all(len(set(federation.site(name).sources)) == 1 for name in federation.names())
    with pytest.raises(DataError, match="busis: http"):
        breast(None)


def test_unknown_sets_among_breast_are_named():
    from feda3i.reading.archive import FileEntry

    _, problems = find_breast([FileEntry("stray/images/a.png", "/x", 1)])
    assert {p.kind for p in problems} == {"file skipped", "set incomplete"}
    assert "cvprip.cs.usu.edu" in next(p.text for p in problems if p.name == "busis")


def test_folder_with_one_folder_per_site(tmp_path):
    for site, first in (("north", 0), ("south", 50)):
        plain_tree(tmp_path / "in" / site, 5, first)
    result = prepare_folder(
        tmp_path / "in", tmp_path / "out", options=Options(size=32), per_site=True, workers=1
    )
    assert not result.problems
    assert {row["site"] for row in rows_of(tmp_path / "out").values()} == {"north", "south"}
    assert result.manifest["cases"] == {"train": 8, "test": 2}


@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "bmp"])
def test_folder_in_every_picture_format(tmp_path, ending):
    for number in range(2):
        image, mask = lesion(number)
        save(tmp_path / "in" / "images" / f"c{number}.{ending}", image)
        save(tmp_path / "in" / "masks" / f"c{number}.png", mask)
    result = prepare_folder(tmp_path / "in", tmp_path / "out", options=Options(size=24), workers=1)
    assert result.manifest["cases"] == {"train": 1, "test": 1}
    assert result.manifest["options"]["channels"] == 3


def test_folder_by_table(tmp_path):
    for number in range(4):
        save_pair(tmp_path / "in", f"s{number}", number, images="scans", masks="drawn")
    lines = [f"scans/s{n}.png,drawn/s{n}.png,clinic {n % 2},train" for n in range(3)]
    table = "\n".join(["image,mask,site,split", *lines, "scans/s3.png,drawn/s3.png,,test", ""])
    (tmp_path / "in" / "my table.csv").write_text(table)
    for source, out in ((tmp_path / "in" / "my table.csv", "a"), (tmp_path / "in", "b")):
        if out == "b":
            (tmp_path / "in" / "index.csv").write_text(table)
        result = prepare_folder(source, tmp_path / out, options=Options(size=32), workers=1)
        assert result.manifest["cases"] == {"train": 3, "test": 1}
    assert tree_bytes(tmp_path / "a") == tree_bytes(tmp_path / "b")
    assert {r["site"] for r in rows_of(tmp_path / "a").values()} == {"clinic 0", "clinic 1", ""}


def test_an_index_of_another_kind_is_not_taken_for_a_table(tmp_path):
    plain_tree(tmp_path / "in", 3)
    (tmp_path / "in" / "index.csv").write_text("name,annotators\ncase0,3\n")
    result = prepare_folder(tmp_path / "in", tmp_path / "out", options=Options(size=16), workers=1)
    assert sum(result.manifest["cases"].values()) == 3
    with pytest.raises(DataError, match="columns image and mask"):
        prepare_folder(tmp_path / "in" / "index.csv", tmp_path / "b", workers=1)


def test_several_classes_keep_their_values(tmp_path):
    for number in range(3):
        image, mask = lesion(number)
        values = mask.astype(np.uint8)
        values[:4, :4] = 2
        save(tmp_path / "in" / "images" / f"c{number}.png", image)
        save(tmp_path / "in" / "masks" / f"c{number}.png", values)
    options = Options(size=20, classes=("lesion", "ruler"))
    prepare_folder(tmp_path / "in", tmp_path / "out", options=options, workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    assert set(np.unique(cases.masks)) == {0, 1, 2}
    assert Image.open(tmp_path / "out" / "masks" / "c0.png").mode == "P"


def test_manifest_says_what_where_from_and_how(tmp_path, isic):
    prepare_isic2017(isic, tmp_path / "out", size=32, workers=1)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["card"]["publisher"] == "International Skin Imaging Collaboration"
    assert manifest["options"]["aspect"] == "squeeze"
    assert set(manifest["versions"]) >= {"feda3i", "pillow", "opencv-python-headless"}
    assert len(manifest["sha256"]) == len(manifest["sha256_published"]) == 64


def test_one_changed_pixel_changes_both_digests(tmp_path):
    plain_tree(tmp_path / "in", 3)
    options = Options(size=None)
    first = prepare_folder(tmp_path / "in", tmp_path / "a", options=options, workers=1).manifest
    path = tmp_path / "in" / "masks" / "case1.png"
    mask = np.array(Image.open(path))
    mask[0, 0] = 255 - mask[0, 0]
    save(path, mask)
    second = prepare_folder(tmp_path / "in", tmp_path / "b", options=options, workers=1).manifest
    assert first["sha256"] != second["sha256"]
    assert first["sha256_published"] != second["sha256_published"]


def test_prepared_folders_are_not_prepared_again(tmp_path):
    plain_tree(tmp_path / "in", 3)
    prepare_folder(tmp_path / "in", tmp_path / "out", options=Options(size=16), workers=1)
    with pytest.raises(DataError, match="prepared already"):
        prepare_folder(tmp_path / "out", tmp_path / "out2", workers=1)
