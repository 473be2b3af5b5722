"""CSV tables of image and mask, and what they must not do."""

import os

import pytest

from data_files import save_pair
from feda3i import recipe
from feda3i.data.folder import load_folder
from feda3i.errors import DataError, RecipeError
from feda3i.reading.csv_table import read_table
from feda3i.simulation.federation import load_data


@pytest.fixture
def files(tmp_path):
    """Return a folder ``home`` with four files, one more outside it, and links to both."""
    home = tmp_path / "home"
    for name in ("home/x/1.png", "home/y/1a.png", "home/y/1b.png", "home/x/2.png", "out.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    os.mkfifo(home / "pipe.png")
    (home / "in.png").symlink_to("x/1.png")
    (home / "away.png").symlink_to("../out.png")
    return home


HEAD = "image,mask,site,split,group"
PAIR = ("x/1", ("y/1a.png",), "", "", "x/1")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            f"{HEAD}\nx/1.png,y/1a.png|y/1b.png,north,train,p1",
            ("x/1", ("y/1a.png", "y/1b.png"), "north", "train", "p1"),
        ),
        ("\ufeffImage;Mask;Site\nx/1.png;y/1a.png;a", (*PAIR[:2], "a", "", "x/1")),
        ("image\tmask\tpatient\n\nx/1.png\ty/1a.png\tp\n\n", (*PAIR[:4], "p")),
        ("image,mask\nx/../x/1.png,y/1a.png", PAIR),
        ("image,mask\nin.png,y/1a.png", ("in", *PAIR[1:4], "in")),
        ("image,mask\n../out.png,y/1a.png", "file outside the folder"),
        ("image,mask\naway.png,y/1a.png", "file outside the folder"),
        ("image,mask\n/etc/passwd,y/1a.png", "file outside the folder"),
        ("image,mask\n\x1b[31mred.png,\u202egnp.exe", "file missing"),
        ("image,mask\nx/1.png,", "file missing"),
        ("image,mask\nx,y/1a.png", "file missing"),
        ("image,mask\npipe.png,y/1a.png", "file missing"),
        ("image,mask,split\nx/1.png,y/1a.png,maybe", "split unknown"),
    ],
)
def test_a_row_is_a_pair_or_a_finding(files, table, expected):
    pairs, problems = read_table(table.encode(), files)
    shown = [(p.name, tuple(m.name for m in p.masks), p.site, p.split, p.group) for p in pairs]
    assert [*shown, *(p.kind for p in problems)] == [expected]
    assert not problems or problems[0].text.isprintable()
    if expected == "file outside the folder":
        assert "--allow-outside" in problems[0].text
        assert len(read_table(table.encode(), files, allow_outside=True)[0]) == 1


def test_a_table_that_is_none_is_refused(files):
    with pytest.raises(DataError, match="columns image and mask, found picture, truth"):
        read_table(b"picture,truth\na,b", files)
    with pytest.raises(DataError, match="line 2 of the table cannot be read"):
        read_table(b'image,mask\n"' + b"x" * 200_000, files)


def test_a_table_is_data_for_every_command(tmp_path, feda3i):
    lines = ["Image;Mask;Site;Split;Patient"]
    for number in range(12):
        place, site = ("disk a", "St. Anna") if number % 2 else ("disk b", "Mercy")
        save_pair(tmp_path / place, f"x{number}", number, images="pics", masks="drawn")
        start = f"../{place}" if number < 6 else str(tmp_path / place)
        files = f"{start}/pics/x{number}.png;{start}/drawn/x{number}.png"
        lines.append(f"{files};{site};;p{number // 4}")
    table = tmp_path / "lists" / "mine.csv"
    table.parent.mkdir()
    table.write_text("\n".join(lines) + "\n\n", encoding="utf-8-sig")
    with pytest.raises(DataError, match="file outside the folder: 12"):
        load_folder(table, size=32, cache=False)
    allowed = ["data.size=32", "data.allow_outside=true"]
    federation = load_data(recipe.load("own", [f"data={table}", *allowed, "data.cache=false"]))
    assert federation.names() == ["Mercy", "St. Anna"]
    ids = federation.train.ids, federation.test.ids
    numbers = [[int(i.rpartition("x")[2]) for i in own] for own in ids]
    assert sorted(numbers[0] + numbers[1]) == list(range(12))
    patients = [{(n % 2, n // 4) for n in side} for side in numbers]
    assert not patients[0] & patients[1]
    code, out, _ = feda3i("check", table, "--size", 32, "--allow-outside")
    assert code == 0, out
    with pytest.raises(RecipeError, match="no folder"):
        recipe.load("own", [f"data={tmp_path}/none.csv"])
