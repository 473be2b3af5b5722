import csv
import io
import json
import re
from dataclasses import replace
from html import unescape
from itertools import product

import pytest

from feda3i.bench.board import boards_of
from feda3i.bench.figures import draw_board, draw_gain, gains, sweep_lines
from feda3i.bench.grid import expand, load_grid
from feda3i.bench.result import RunResult, bias_of, collect, offsets_of, read, result_of
from feda3i.bench.tables import differences, missing_lines, named, tables_of, to_markdown
from feda3i.commands.tables import boards_of_all, tables
from feda3i.errors import RunError


@pytest.fixture(scope="module")
def known(played):
    return collect([played / "res"])[0]


@pytest.fixture(scope="module")
def board(grid_file, known):
    return boards_of(load_grid(str(grid_file)), known)[0]


def test_tables_hold_the_numbers_of_the_results(board):
    made = {table.name: table for table in tables_of(board)}
    first = made["tiny-last1"]
    result = board.results("SKIN N_S", "gce")[0]
    row = next(row for row in first.rows if row[0] == "GCE")
    assert row[1].strip("*") == f"{100 * result.scores['dice']:.2f}"
    assert {"tiny-last5", "tiny-paper", "tiny-order", "tiny-differences", "tiny-why"} <= set(made)
    beside = next(row for row in made["tiny-paper"].rows if row[0] == "GCE")
    assert beside[1].endswith("/ 66.43 ± 2.21")
    against = {row[1] for row in made["tiny-differences"].rows}
    assert against == {"FedAvg", "FedAvg + IntraGW", "GCE"}


def test_all_formats_hold_the_same_cells(board):
    for table in tables_of(board):
        rows = list(csv.reader(io.StringIO(table.to_csv())))
        assert len(rows) == 1 + len(table.rows)
        assert all(len(row) == len(table.header) for row in rows)
        lines = [line for line in table.to_markdown().splitlines() if line.startswith("|")]
        assert len(lines) == 2 + len(table.rows)
        latex = table.to_latex()
        assert latex.count(r"\\") == 1 + len(table.rows)
        assert not re.search(r"(?<!\\)[%#]", latex)


def test_tables_come_from_run_folders_as_well(played, grid_file, known):
    from_folders = collect([played / "out"])[0]
    assert set(from_folders) == set(known)
    for digest, result in from_folders.items():
        assert result.cases == known[digest].cases
        assert result.dice == known[digest].dice
    again = boards_of(load_grid(str(grid_file)), from_folders)[0]
    kept = boards_of(load_grid(str(grid_file)), known)[0]
    assert to_markdown(again, tables_of(again)) == to_markdown(kept, tables_of(kept))


def test_results_without_a_grid_make_a_table_too(known, capsys, played):
    assert boards_of_all(known, [])[0].name == "results"
    tables([played / "res"], [], None)
    assert "| GCE |" in capsys.readouterr().out


def test_missing_runs_are_named(grid_file, known):
    grid = load_grid(str(grid_file), ["seeds=[0, 1]"])
    board = boards_of(grid, known)[0]
    assert missing_lines(board)[0].startswith("Missing runs: 5 (SKIN N_S FedAvg seed 1;")


def test_a_grid_may_name_the_row_to_compare_with(grid_file, known):
    usual = boards_of(load_grid(str(grid_file)), known)[0]
    other = boards_of(load_grid(str(grid_file), ["reference=fedavg"]), known)[0]
    ours = {row[1]: row[2] for row in differences(usual).rows}["FedAvg"]
    turned = {row[1]: row[2] for row in differences(other).rows}["FedA3I"]
    assert [float(x) for x in ours.split(",")] == [-float(x) for x in turned.split(",")]
    assert differences(other).title.startswith("FedAvg minus each method,")


@pytest.mark.parametrize("key", ["masks", "weights", "order", "partition", "test"])
def test_results_that_do_not_share_their_start_are_refused(grid_file, known, key):
    changed = dict(known)
    cell = next(cell for cell in expand(load_grid(str(grid_file))) if cell.row == "gce")
    result = changed[cell.digest]
    hashes = {**result.hashes, key: "0" * 64}
    changed[cell.digest] = RunResult(**{**vars(result), "hashes": hashes})
    with pytest.raises(RunError, match=f"expected the same {key} for all methods"):
        boards_of(load_grid(str(grid_file)), changed)


def test_a_result_can_be_read_back(known, tmp_path):
    result = next(iter(known.values()))
    result.write(tmp_path / "a.json")
    assert read(tmp_path / "a.json") == result
    (tmp_path / "b.json").write_text("{}")
    found, left = collect([tmp_path])
    assert list(found) == [result.digest]
    assert "not the result of a run" in left[0]


@pytest.mark.parametrize(("merge", "is_good"), [("mean", True), ("median", False)])
def test_a_result_of_the_first_version_is_good_if_it_merged_by_the_mean(
    known, tmp_path, merge, is_good
):
    digest, result = next(iter(known.items()))
    engine = {**result.recipe["engine"], "merge": merge, "trim": 0.2}
    replace(result, recipe={**result.recipe, "engine": engine}).write(tmp_path / "a.json")
    found, left = collect([tmp_path])
    assert (list(found) == [digest], bool(left)) == (is_good, not is_good)


def test_a_result_knows_every_case_and_every_site(played, known):
    path = next(path for path in (played / "out").iterdir() if "gce" in path.name)
    result = known[result_of(path).digest]
    assert len(result.cases) == 4
    assert list(result.sites) == ["site-01", "site-02", "site-03"]
    mean = sum(result.cases.values()) / len(result.cases)
    assert mean == pytest.approx(result.scores["dice"], abs=1e-4)
    assert "/" not in json.dumps(result.recipe["data"])  # no place of this machine


def test_an_unfinished_run_has_no_result(played, tmp_path):
    path = next(path for path in (played / "out").iterdir() if "gce" in path.name)
    for name in ("manifest.json", "recipe.toml", "events.jsonl"):
        (tmp_path / name).write_bytes((path / name).read_bytes())
    with pytest.raises(RunError, match="is not finished"):
        result_of(tmp_path)


def test_the_bias_is_the_sum_of_weights_and_offsets(board):
    for result in board.results("SKIN N_S", "feda3i").values():
        assert result.why["residual_bias_fedavg"] < 0  # most draw too small under N_S
        assert 1 <= result.why["effective_sites"] <= 3
    mu = offsets_of({"a": {"mu": 2.0, "scale": 0.5}, "b": {"mu": -1.0, "scale": 0.5}, "c": {}})
    assert mu == {"a": 4.0, "b": -2.0}
    assert bias_of({"a": 0.25, "b": 0.75}, mu) == -0.5


def test_figures_are_drawn_the_same_every_time(board, grid_file, known, tmp_path):
    assert len(gains([board])) == 2
    assert len(gains([board, board])) == 2, "grids share runs"
    first = [path.read_bytes() for path in draw_gain([board], tmp_path / "a")]
    assert [path.read_bytes() for path in draw_gain([board], tmp_path / "b")] == first
    changes = ["rows=['fedavg', 'feda3i']", "vary={'feda3i.power'=[1, 2]}", "kind=sweep"]
    swept = boards_of(load_grid(str(grid_file), changes), known)[0]
    assert [table.name for table in tables_of(swept)] == ["tiny-sweep", "tiny-why"]
    names = [path.name for path in draw_board(swept, tmp_path / "c")]
    assert names == ["tiny.svg", "tiny.png"]


def test_the_figure_of_a_table_shows_every_row_and_column(board, tmp_path):
    drawn = draw_board(board, tmp_path / "a")
    text = drawn[0].read_text()
    for row, column in product(board.rows, board.columns):
        assert f"<!-- {named(board, row)} -->" in text
        assert f"<!-- {column} -->" in text
    again = draw_board(board, tmp_path / "b")
    assert [path.read_bytes() for path in drawn] == [path.read_bytes() for path in again]


def test_points_of_a_sweep_are_made_of_the_same_seeds(grid_file, known):
    changes = ["rows=['fedavg', 'feda3i']", "vary={'feda3i.power'=[1, 2]}", "kind=sweep"]
    swept = boards_of(load_grid(str(grid_file), changes), known)[0]
    column = swept.columns[0]
    setting = swept.points[column][0]
    one = swept.results(column, "fedavg")[0]
    other = replace(one, dice={number: dice / 2 for number, dice in one.dice.items()})
    found = {**swept.found, (column, "fedavg"): {0: one, 1: other}}
    uneven = replace(swept, found=found)
    assert uneven.score(column, "fedavg").count == 2
    assert uneven.common_seeds(setting) == swept.common_seeds(setting) == [0]
    assert tables_of(uneven)[0] == tables_of(swept)[0], "the second seed stands at one point alone"
    assert tables_of(uneven)[0].note == f"Seeds that all points have: {setting}: 0."
    assert sweep_lines(uneven) == sweep_lines(swept)
    even = {place: {**found, 1: other} for place, found in swept.found.items()}
    assert replace(swept, found=even).common_seeds(setting) == [0, 1]


def test_the_page_holds_every_table_and_figure(board, grid_file, known):
    from feda3i.bench.bench_page import bench_page

    changes = ["rows=['fedavg', 'feda3i']", "vary={'feda3i.power'=[1, 2]}", "kind=sweep"]
    swept = boards_of(load_grid(str(grid_file), changes), known)[0]
    page = unescape(bench_page([board, swept]))
    assert all(table.title.split(",")[0] in page for table in tables_of(board))
    assert page.count("<svg") >= 1
    assert "src=" not in page  # one file, nothing is fetched
    assert "Missing runs: 1" in page
