"""Every common way to lay out images and masks is read as it is, and no picture gets lost."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from data_files import lesion, save
from feda3i.data.folder import folder
from feda3i.errors import DataError
from feda3i.reading.file_list import FileEntry
from feda3i.reading.listing import list_cases
from feda3i.reading.names import unique_ids
from feda3i.reading.nnunet import nnunet_classes
from feda3i.reading.options import Options
from feda3i.reading.pairs import find_pairs


def entries(*names):
    return [FileEntry(name, f"/x/{name}", 1) for name in names]


ONE = """
images/a.png               masks/a.png
north/images/a.png         north/masks/a.png             north
north/a.png                north/a_mask.png              north
north/a.jpg                north/a_Segmentation.png      north
north/a.png                north/a_lesion.png            north
north/bus_0001.png         north/mask_0001.png           north
images/bus_0001-l.png      masks/mask_0001-l.png
north/img_7.png            north/7_gt.png                north
north/a.png                north/masks/a.png             north
north/images/a.png         north/images/a_mask.png       north
north_images/a.png         north_masks/a.png             north
train/images/a.png         train/masks/a.png             -       train
north/train_images/a.png   north/train_masks/a.png       north   train
north/val/images/a.png     north/val/masks/a.png         north   validation
north/test/a.png           north/test/a_mask.png         north   test
south/test/images/d/a.png  south/test/masks/d/a.png      south   test
D1/imagesTr/a_0000.png     D1/labelsTr/a.png             D1
D1/imagesTs/a_0000.nii.gz  D1/labelsTs/a.nii.gz          D1      test
D1/imagesTr/a.nii.gz       D1/labelsTr/a.nii.gz          D1
images/deep/a.png          masks/a.png
images/A.png               masks/a.png
lesion_7.png               lesion_7_mask.png
"""


@pytest.mark.parametrize("line", ONE.strip().splitlines())
def test_a_layout_is_understood(line):
    image, mask, source, split = [*line.split(), "-", "-"][:4]
    pairs, problems = find_pairs(entries(image, mask))
    assert [(p.images[0].name, p.masks[0].name) for p in pairs] == [(image, mask)]
    assert (pairs[0].source, pairs[0].split) == (source.strip("-"), split.strip("-"))
    assert problems == []


# Files, the masks of every case by its name, and the findings.
TREES = {
    "equal names and endings": (
        "images/a.jpg masks/a.png images/b.png masks/b_mask.png masks/b_mask_1.png "
        "images/ISIC_1.jpg masks/ISIC_1_Segmentation.png",
        {"a": "masks/a.png", "b": "masks/b_mask.png masks/b_mask_1.png"}
        | {"ISIC_1": "masks/ISIC_1_Segmentation.png"},
        set(),
    ),
    "hospitals of different layouts": (
        "north/images/a.png north/masks/a.png south/b.png south/b_mask.png "
        "west/case1/image.png west/case1/mask.png west/case2/image.png west/case2/mask.png "
        "east/imagesTr/c_0000.png east/labelsTr/c.png",
        {"north/a": "north/masks/a.png", "south/b": "south/b_mask.png"}
        | {f"west/case{n}": f"west/case{n}/mask.png" for n in (1, 2)}
        | {"east/train/c": "east/labelsTr/c.png"},
        set(),
    ),
    "names that differ in case": (
        "images/A.png images/a.png masks/A.png masks/a.png",
        {"A": "masks/A.png", "a": "masks/a.png"},
        set(),
    ),
    "case decides": (
        "images/AB.png images/aB.png masks/ab.png masks/aB.png",
        {"aB": "masks/aB.png"},
        {("mask missing", "images/AB.png"), ("mask of two images", "masks/ab.png")},
    ),
    "missing or double": (
        "images/a.png masks/b.png images/c.png images/c.jpg masks/c.png "
        "images/d.png masks/d.png masks/d.bmp images/notes.txt",
        {},
        {("mask missing", "images/a.png"), ("image missing", "masks/b.png")}
        | {("two images of one name", f"{k}.png") for k in ("images/c", "masks/c")}
        | {("two masks of one name", f"{k}.png") for k in ("images/d", "masks/d")}
        | {("two images of one name", "images/c.jpg"), ("two masks of one name", "masks/d.bmp")},
    ),
    "a mask of its own": (
        "p1_02_b.png p1_02_b_mask.png mask_02.png bus_02.png",
        {"p1_02_b": "p1_02_b_mask.png", "bus_02": "mask_02.png"},
        set(),
    ),
    "formats that are not read": (
        "n/images/a.png n/masks/a.png n/images/b.webp s/scan.mhd",
        {"n/a": "n/masks/a.png"},
        {("format not read", "n/images/b.webp"), ("format not read", "s/scan.mhd")},
    ),
}


@pytest.mark.parametrize("tree", TREES)
def test_a_tree_is_read_as_expected(tree):
    files, cases, findings = TREES[tree]
    pairs, problems = find_pairs(entries(*files.split()))
    assert {pair.name: " ".join(mask.name for mask in pair.masks) for pair in pairs} == cases
    assert {(problem.kind, problem.name) for problem in problems} == findings
    assert all(problem.level == "error" for problem in problems)


def test_a_folder_per_case_or_patient_is_no_site():
    files = "h/p1/a h/p1/a_mask h/p1/b h/p1/b_mask h/p2/a h/p2/a_mask h/p3/x h/p3/x_mask"
    pairs, problems = find_pairs(entries(*(f"{file}.png" for file in files.split())))
    assert not problems
    assert {pair.source for pair in pairs} == {"h"}
    assert sorted(pair.group for pair in pairs) == ["h/p1", "h/p1", "h/p2", "h/p3"]
    assert [pair.name for pair in pairs] == ["h/p1/a", "h/p1/b", "h/p2", "h/p3"]
    # Folders of several cases each are sites, whatever lies in them.
    two = [f"{s}/{c}{e}.png" for s in ("n", "s") for c in "ab" for e in ("", "_mask")]
    assert {pair.source for pair in find_pairs(entries(*two))[0]} == {"n", "s"}
    # Both sides of a patient are one group, and sources do not mix.
    kinds = ("images", "masks")
    names = [f"{s}/{k}/bus_1-{side}.png" for s in "xy" for k in kinds for side in "lr"]
    groups = [pair.group for pair in find_pairs(entries(*names))[0]]
    assert groups == ["x/bus_1", "x/bus_1", "y/bus_1", "y/bus_1"]
    pairs, _ = find_pairs(entries("images/p7_3.png", "masks/p7_3.png"), r"(?P<group>p\d+)_.*")
    assert pairs[0].group == "p7"


@pytest.mark.parametrize(
    ("names", "kind", "both"),
    [
        (("a_1.png", "b_1.png", "mask_1.png"), "mask of two images", ("a_1.png", "b_1.png")),
        (("a.png", "a_lesion.png", "a_mask.png"), "masks of two kinds", ("a_lesion", "a_mask")),
        (("images/p/a.png", "images/q/a.png", "masks/a.png"), "mask of two images", ("p/a", "q/a")),
        (("x/1.png", "x/2.png", "x/mask.png"), "mask of two images", ("x/1.png", "x/2.png")),
    ],
)
def test_what_is_ambiguous_is_an_error_that_names_both(names, kind, both):
    pairs, problems = find_pairs(entries(*names))
    assert not pairs
    text = next(p.text for p in problems if p.kind == kind and p.level == "error")
    assert all(name in text for name in both)


@given(st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=30))
def test_ids_are_safe_and_unique_whatever_the_names_and_their_order(names):
    ids = unique_ids(names)
    assert len({i.casefold() for i in ids}) == len(names)
    assert all(i.isascii() and "/" not in i and i[0] != "." and len(i) < 120 for i in ids)
    assert unique_ids(names[::-1]) == ids[::-1]


words = st.sampled_from(["a", "b", "mask", "img", "lesion", "7", "seg", "images", "masks", "test"])
stems = st.lists(words, min_size=1, max_size=3).map("_".join)
paths = st.lists(stems, min_size=1, max_size=3).map("/".join)


@settings(deadline=None)
@example(["a", "mask/a", "img/a"])  # two images of one name once hid their mask
@given(st.lists(paths, max_size=12, unique=True))
def test_every_picture_is_in_a_case_or_in_a_finding(names):
    files = [f"{name}.png" for name in names]
    pairs, problems = find_pairs(entries(*files))
    used = [f.name for pair in pairs for f in (*pair.images, *pair.masks)]
    told = " ".join(f"{p.name} {p.text}" for p in problems)
    assert len(set(used)) == len(used)
    assert all(name in used or name in told for name in files)


def test_nnunet_channels_and_labels(tmp_path):
    for number in range(6):
        split, (image, mask) = "Tr" if number < 4 else "Ts", lesion(number, colour=False)
        for channel in range(2):
            shifted = np.roll(image, channel, axis=0)
            save(tmp_path / f"images{split}" / f"c_{number}_{channel:04d}.png", shifted)
        save(tmp_path / f"labels{split}" / f"c_{number}.png", mask.astype(np.uint8))
    (tmp_path / "dataset.json").write_text('{"labels": {"background": 0, "mole": 1}}')
    federation = folder(tmp_path, sites=2, partition="iid", cache=False)
    assert federation.classes == ("mole",)
    assert (len(federation.train), len(federation.test)) == (4, 2)
    image, _ = lesion(4, colour=False)
    expected = np.concatenate([image, np.roll(image, 1, axis=0)], axis=-1)
    np.testing.assert_array_equal(federation.test.images[0], expected)
    (tmp_path / "imagesTr" / "c_2_0001.png").unlink()
    _, problems = list_cases(tmp_path, Options())
    assert [(p.kind, p.name) for p in problems] == [("channels differ", "imagesTr/c_2_0000.png")]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (['{"background": 0, "core": 2, "edema": 1}'], ("edema", "core")),
        (['{"0": "background", "1": "Head", "2": "Tail"}'], ("Head", "Tail")),
        ([], ()),
        (['{"b": 0, "x": 1}', '{"b": 0, "y": 1}'], "do not name the same classes"),
        (['{"background": 0, "whole": [1, 2]}'], "without gaps or regions"),
        (["{"], "cannot be read"),
    ],
)
def test_dataset_json_of_both_versions_and_its_mistakes(tmp_path, texts, found):
    files = [FileEntry(f"s{k}/dataset.json", str(tmp_path / str(k)), 1) for k in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        Path(file.place).write_text(f'{{"labels": {text}}}')
    is_mistake = isinstance(found, str)
    with pytest.raises(DataError, match=found) if is_mistake else nullcontext():
        assert nnunet_classes(files) == found
