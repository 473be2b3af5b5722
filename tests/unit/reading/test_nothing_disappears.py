"""What becomes of every file is told; links, pipes and pictures in no case do not pass unseen."""

import os

import pytest

from data_files import lesion, plain_tree, save, save_pair
from feda3i.data.checkup import check_data
from feda3i.data.folder import folder
from feda3i.errors import DataError
from feda3i.reading.listing import list_cases
from feda3i.reading.options import Options
from feda3i.reading.problems import errors_of
from feda3i.reading.usage import usage_of


@pytest.fixture
def hospitals(tmp_path):
    """Return a root of three hospitals of different layouts, one with a picture without mask."""
    root = tmp_path / "hospitals"
    plain_tree(root / "north", 6)
    for number in range(5):
        image, mask = lesion(100 + number, 60, 80)
        save(root / "south" / f"s{number}.png", image)
        save(root / "south" / f"s{number}_mask.png", mask)
        image, mask = lesion(200 + number, 50, 50)
        save(root / "west" / f"case_{number}" / "image.png", image)
        save(root / "west" / f"case_{number}" / "mask.png", mask)
    save(root / "south" / "lost.png", lesion(7)[0])
    (root / "empty").mkdir()
    (root / "north" / "notes.docx").write_text("x")
    return root


def test_every_folder_is_listed_with_what_is_used_and_why_not(hospitals, feda3i):
    listing, problems = list_cases(hospitals, Options(size=32))
    assert usage_of(listing.fates) == {
        "empty": {"empty": 1},
        "north": {"other files": 1},
        "north/images": {"images": 6},
        "north/masks": {"masks": 6},
        "south": {"images": 5, "masks": 5, "mask missing": 1},
        "west/*": {"images": 5, "masks": 5, "folders": 5},
    }
    assert [(p.level, p.name) for p in problems] == [("error", "south/lost.png")]
    code, out, _ = feda3i("check", hospitals, "--size", 32)
    lines = ("south              5      5         1  mask missing: 1", "folders: 5", "empty")
    assert (code, [line for line in lines if line not in out]) == (1, [])
    code, out, _ = feda3i("check", hospitals, "--size", 32, "--allow-unused")
    assert (code, "note               mask missing: 1" in out) == (0, True)


def test_unused_pictures_stop_a_run_unless_allowed_and_archives_and_dicom_always(hospitals):
    options = {"size": 32, "cache": False}
    with pytest.raises(DataError) as caught:
        folder(hospitals, **options)
    for word in ("south/lost.png", "data.unused=allow", "west/*"):
        assert word in str(caught.value)
    federation = folder(hospitals, **options, unused="allow")
    assert federation.names() == ["north", "south", "west"]
    assert federation.notes["folders"]["south"]["mask missing"] == 1
    (hospitals / "more.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match="archive not read: 1") as caught:
        folder(hospitals, **options)
    assert f"unpack it: unzip '{hospitals}/more.zip' -d '{hospitals}'" in str(caught.value)
    (hospitals / "scan.dcm").write_bytes(b"x")
    with pytest.raises(DataError, match=r"data\.volumes=slices"):
        folder(hospitals, **options, unused="allow")


def test_files_that_cannot_be_read_count_as_not_used(hospitals):
    for name in ("north/images/case1.png", "west/case_2/image.png"):
        (hospitals / name).write_bytes((hospitals / name).read_bytes()[:300])
    report = check_data(hospitals, size=32)
    found = usage_of(report.fates)
    assert found["north/images"] == {"images": 5, "corrupt picture": 1}
    assert found["north/masks"] == {"masks": 5, "corrupt picture": 1}
    assert found["west/*"] == {"images": 4, "masks": 4, "folders": 4}
    assert found["west/case_2"] == {"corrupt picture": 2}


def test_links_and_pipes_do_not_stop_the_reading_of_a_folder(tmp_path):
    root = plain_tree(tmp_path, 3)
    for number, name in enumerate(("folder", "pipe")):
        save_pair(root, name, 9 + number)
        (root / "images" / f"{name}.png").unlink()
    (root / "images" / "loop.png").symlink_to("loop.png")
    (root / "images" / "folder.png").mkdir()
    os.mkfifo(root / "images" / "pipe.png")
    rooms = [root / f"room{n}" for n in range(9)]  # that lead to each other in many circles
    for room in rooms:
        room.mkdir()
        for other in rooms:
            (room / other.name).symlink_to(other)
    listing, problems = list_cases(root, Options(size=16))
    assert {(p.kind, p.name) for p in problems} == {
        ("unreadable file", "images/loop.png"),
        ("image missing", "masks/folder.png"),
        ("image missing", "masks/pipe.png"),
    }
    assert len(listing.cases) == 3


def test_a_link_leads_outside_only_if_that_is_meant(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    (root / "images" / "case0.png").rename(tmp_path / "elsewhere.png")
    (root / "images" / "case0.png").symlink_to(tmp_path / "elsewhere.png")
    result = check_data(root, size=16)
    assert any("--allow-outside" in problem.text for problem in errors_of(result.problems))
    assert len(result.cases) == 2
    allowed = check_data(root, size=16, allow_outside=True)
    assert (len(allowed.cases), errors_of(allowed.problems)) == (3, [])
