import pytest

from data_files import save_pair
from feda3i import recipe
from feda3i.data.check import check_data
from feda3i.data.folder import folder, load_folder
from feda3i.errors import DataError, RecipeError
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options
from feda3i.simulation.federation import load_data


@pytest.fixture
def table(tmp_path):
    """Return a table in one folder that names pictures in two others, absolute and relative."""
    lines = ["Image;Mask;Hospital;Split;Patient"]
    for number in range(12):
        place = tmp_path / ("disk a" if number % 2 else "disk b")
        save_pair(place, f"x{number}", number, images="pics", masks="drawn")
        start = f"../{place.name}" if number < 6 else str(place)
        site = "St. Anna" if number % 2 else "Mercy"
        patient = f"p{number // 4}"
        lines.append(f"{start}/pics/x{number}.png;{start}/drawn/x{number}.png;{site};;{patient}")
    path = tmp_path / "lists" / "mine.csv"
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8-sig")
    return path


def test_a_table_reaches_anywhere_and_its_sites_keep_their_names(table):
    federation = folder(table, size=32, cache=False)
    assert federation.names() == ["Mercy", "St. Anna"]
    assert sorted(set(federation.test.sites)) == ["Mercy", "St. Anna"]
    assert len(federation.train) + len(federation.test) == 12
    trained, tested = (
        {i[1:].split("/")[-1] for i in c.ids} for c in (federation.train, federation.test)
    )
    assert not trained & tested


def test_patients_of_a_table_stay_whole(table):
    federation = folder(table, size=32, cache=False)
    numbers = [
        [int(i.rpartition("x")[2]) for i in c.ids] for c in (federation.train, federation.test)
    ]
    patients = [{(n % 2, n // 4) for n in side} for side in numbers]
    assert not patients[0] & patients[1]


def test_a_table_is_data_for_every_command(table, tmp_path, feda3i):
    loaded = recipe.load("own", [f"data={table}", "data.size=32"])
    assert loaded.data.options() == {"size": 32, "partition": "by-folder", "path": str(table)}
    assert load_data(loaded).names() == ["Mercy", "St. Anna"]
    assert check_data(table, size=32, measure=False).is_fit
    result = prepare_folder(table, tmp_path / "out", options=Options(size=32), workers=1)
    assert not result.problems
    plain = load_folder(table, size=32, cache=False)
    assert plain.digest() == load_folder(tmp_path / "out", cache=False).digest()


def test_what_a_table_gets_wrong_is_named(table, tmp_path):
    text = table.read_text("utf-8-sig")
    table.write_text(text + "nowhere/y.png;nowhere/m.png;A;;\n")
    with pytest.raises(DataError, match=r"line 15: no such file .*nowhere/y.png"):
        load_folder(table, size=32, cache=False)
    table.write_text("picture,truth\na,b\n")
    with pytest.raises(DataError, match="columns image and mask, found picture, truth"):
        load_folder(table, size=32, cache=False)
    with pytest.raises(RecipeError, match="no folder"):
        recipe.load("own", [f"data={tmp_path}/none.csv"])
