from hypothesis import given
from hypothesis import strategies as st

from feda3i.reading.file_list import FileEntry
from feda3i.reading.names import safe_name, unique_ids
from feda3i.reading.pairs import find_pairs


def entries(*names):
    return [FileEntry(name, f"/x/{name}", 1) for name in names]


def paired(*names):
    pairs, problems = find_pairs(entries(*names))
    return {p.name: [m.name for m in p.masks] for p in pairs}, [(p.kind, p.name) for p in problems]


@given(st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=30))
def test_ids_are_safe_and_unique_whatever_the_names(names):
    ids = unique_ids(names)
    assert len({i.casefold() for i in ids}) == len(names)
    assert all(i.isascii() and "/" not in i and not i.startswith(".") for i in ids)
    assert all(len(i) < 120 for i in ids)


def test_an_id_does_not_depend_on_the_order():
    assert unique_ids(["Mole", "mole", "x"]) == unique_ids(["x", "mole", "Mole"])[::-1]
    assert unique_ids(["a/1", "b/1"], ["1", "1"])[0] != "1"


def test_device_names_of_windows_are_avoided():
    assert safe_name("con").startswith("con-")
    assert safe_name("nul.2").startswith("nul.2-")


def test_equal_names_and_endings_are_paired():
    found, problems = paired(
        "images/a.jpg",
        "masks/a.png",
        "images/b.png",
        "masks/b_mask.png",
        "masks/b_mask_1.png",
        "images/ISIC_1.jpg",
        "masks/ISIC_1_Segmentation.png",
    )
    assert found == {
        "a": ["masks/a.png"],
        "b": ["masks/b_mask.png", "masks/b_mask_1.png"],
        "ISIC_1": ["masks/ISIC_1_Segmentation.png"],
    }
    assert not problems


def test_names_that_differ_only_in_case_stay_apart():
    found, problems = paired("images/A.png", "images/a.png", "masks/A.png", "masks/a.png")
    assert found == {"A": ["masks/A.png"], "a": ["masks/a.png"]}
    assert not problems
    found, problems = paired("images/A.png", "masks/a.png")
    assert found == {"A": ["masks/a.png"]}
    found, problems = paired("images/AB.png", "images/aB.png", "masks/ab.png", "masks/aB.png")
    assert found == {"aB": ["masks/aB.png"]}
    assert sorted(problems) == [
        ("mask missing", "images/AB.png"),
        ("mask of two images", "masks/ab.png"),
    ]


def test_what_is_missing_or_double_is_named():
    _, problems = paired(
        "images/a.png",
        "masks/b.png",
        "images/c.png",
        "images/c.jpg",
        "masks/c.png",
        "images/d.png",
        "masks/d.png",
        "masks/d.bmp",
        "images/notes.txt",
    )
    assert {kind for kind, _ in problems} == {
        "mask missing",
        "image missing",
        "two images of one name",
        "two masks of one name",
        "file skipped",
    }


def test_folders_above_mean_source_and_split():
    pairs, _ = find_pairs(
        entries(
            "train/images/a.png",
            "train/masks/a.png",
            "north/images/a.png",
            "north/masks/a.png",
            "south/test/images/deep/a.png",
            "south/test/masks/deep/a.png",
        )
    )
    assert [(p.name, p.source, p.split) for p in pairs] == [
        ("north/a", "north", ""),
        ("south/test/deep/a", "south", "test"),
        ("train/a", "", "train"),
    ]


def test_both_sides_of_a_patient_are_one_group_and_sources_do_not_mix():
    names = [
        f"{s}/{k}/bus_1-{side}.png" for s in "xy" for k in ("images", "masks") for side in "lr"
    ]
    groups = [pair.group for pair in find_pairs(entries(*names))[0]]
    assert groups == ["x/bus_1", "x/bus_1", "y/bus_1", "y/bus_1"]
    pairs, _ = find_pairs(entries("images/p7_3.png", "masks/p7_3.png"), r"(?P<group>p\d+)_.*")
    assert pairs[0].group == "p7"
