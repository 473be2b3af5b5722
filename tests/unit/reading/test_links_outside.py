"""Links and pipes do not stop the reading of a folder."""

import os

from data_files import plain_tree, save_pair
from feda3i.data.checkup import check_data
from feda3i.reading.problems import errors_of


def test_links_to_nothing_and_folders_with_an_images_name_do_not_stop_it(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    (root / "images" / "loop.png").symlink_to("loop.png")
    save_pair(root, "folder", 9)
    (root / "images" / "folder.png").unlink()
    (root / "images" / "folder.png").mkdir()
    save_pair(root, "pipe", 10)
    (root / "images" / "pipe.png").unlink()
    os.mkfifo(root / "images" / "pipe.png")
    result = check_data(root, size=16)
    assert {(p.kind, p.name) for p in errors_of(result.problems)} == {
        ("unreadable file", "images/loop.png"),
        ("image missing", "masks/folder.png"),
        ("image missing", "masks/pipe.png"),
    }
    assert len(result.cases) == 3


def test_a_link_leads_outside_only_if_that_is_meant(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    (root / "images" / "case0.png").rename(tmp_path / "elsewhere.png")
    (root / "images" / "case0.png").symlink_to(tmp_path / "elsewhere.png")
    result = check_data(root, size=16)
    assert any("--allow-outside" in problem.text for problem in errors_of(result.problems))
    assert len(result.cases) == 2
    allowed = check_data(root, size=16, allow_outside=True)
    assert (len(allowed.cases), errors_of(allowed.problems)) == (3, [])


def test_links_in_many_circles_come_to_an_end(tmp_path):
    root = plain_tree(tmp_path / "in", 3)
    rooms = [root / f"room{n}" for n in range(9)]
    for room in rooms:
        room.mkdir()
        for other in rooms:
            (room / other.name).symlink_to(other)
    assert len(check_data(root, size=16).cases) == 3
