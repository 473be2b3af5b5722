import csv
import io
import json
import re
from dataclasses import replace

import pytest

from feda3i.bench.board import board_of_results, boards_of
from feda3i.bench.figures import draw_gain, draw_sweep, gains, sweep_lines
from feda3i.bench.grid import expand
from feda3i.bench.result import bias_of, collect, offsets_of, read, result_of
from feda3i.bench.tables import differences, missing_lines, tables_of, to_markdown
from feda3i.bench.text_table import Table
from feda3i.errors import RunError


@pytest.fixture(scope="module")
def known(played):
    return collect([played / "res"])[0]


@pytest.fixture(scope="module")
def board(tiny, known):
    return boards_of(tiny(), known)[0]


@pytest.fixture(scope="module")
def swept(tiny, known):
    changes = ["rows=['fedavg', 'feda3i']", "vary={'feda3i.power'=[1, 2]}", "kind=sweep"]
    return boards_of(tiny(*changes), known)[0]


def test_tables_hold_the_numbers_of_the_results(board):
    made = {table.name: table for table in tables_of(board)}
    first = made["tiny-last1"]
    result = board.results("SKIN N_S", "gce")[0]
    row = next(row for row in first.rows if row[0] == "GCE")
    mean = sum(result.cases.values()) / len(result.cases)
    assert row[1].strip("*") == f"{100 * mean:.2f}"
    assert "tiny-last5" not in made, "there are three rounds only"
    assert {"tiny-paper", "tiny-order", "tiny-differences", "tiny-why"} <= set(made)
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


def test_tables_come_from_run_folders_as_well(played, tiny, known):
    from_folders = collect([played / "out"])[0]
    both = [{d: (r.cases, r.dice) for d, r in one.items()} for one in (from_folders, known)]
    assert both[0] == both[1]
    missing = missing_lines(boards_of(tiny("seeds=[0, 1]"), known)[0])
    assert missing[0].startswith("Missing runs: 5 (SKIN N_S FedAvg seed 1;")
    made = [boards_of(tiny(), results)[0] for results in (from_folders, known)]
    assert len({to_markdown(board, tables_of(board)) for board in made}) == 1


def test_results_without_a_grid_have_statistics_and_short_names(known, feda3i, played):
    code, out, _ = feda3i("tables", played / "res")
    assert code == 0
    assert "| GCE |" in out
    made = {table.name: table for table in tables_of(board_of_results(known))}
    others = {"FedAvg", "FedAvg + IntraGW", "GCE"}
    rows = {row[0] for row in made["results-last1"].rows}
    assert rows == others | {"FedA3I", "clean masks (ceiling)"}
    assert {row[1] for row in made["results-differences"].rows} == others


def test_the_mean_of_five_rounds_needs_five(board):
    dice = {"dice": dict.fromkeys(range(1, 6), 0.5)}
    longer = {
        place: {seed: result.model_copy(update=dice) for seed, result in found.items()}
        for place, found in board.found.items()
    }
    made = [table.name for table in tables_of(replace(board, found=longer))]
    assert made[:2] == ["tiny-last1", "tiny-last5"]


NONE = {"dice": {1: 0.0}}


def test_a_model_that_predicts_nothing_has_no_score(board):
    good = board.results("SKIN N_S", "fedavg")[0]
    scored, empty = {0: good.model_copy(update={"dice": {1: 0.7}})}, good.model_copy(update=NONE)
    found = {("SKIN N_S", row): scored for row in board.rows}
    found["SKIN N_S", "gce"] = {0: empty}
    found["SKIN N_S", "feda3i,weighting=intra"] = {**scored, 1: empty}
    made = {table.name: table for table in tables_of(replace(board, found=found))}
    cells = {row[0]: row[1] for row in made["tiny-last1"].rows}
    assert cells["GCE"] == "collapsed"
    assert cells["FedAvg + IntraGW"] == "**70.00** (1 of 2 collapsed)"
    assert {row[1] for row in made["tiny-differences"].rows} == {"FedAvg"}
    beside = {row[0]: row[1] for row in made["tiny-paper"].rows}
    assert beside["GCE"].startswith("collapsed / 66.43")


def test_signs_of_latex_are_escaped():
    table = Table("t", "50 % of {a}", ("p",), (("**1 ± 2**",), ("a_b $ ^ \\",)))
    text = table.to_latex()
    assert r"\textbf{1 $\pm$ 2} \\" in text
    assert r"a\_b \$ \textasciicircum{} \textbackslash{} \\" in text
    assert r"50 \% of \{a\}" in text


ODD = {
    "not JSON": b"{",
    "nothing": b"{}",
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "other version": b'{"format": 2}',
    "Dice of text": {"dice": {"1": "high"}},
    "Dice beyond 1": {"dice": {"1": 9}},
    "no round": {"dice": {}},
    "a round of words": {"dice": {"first": 0.5}},
    "cases as list": {"cases": [1]},
    "recipe of text": {"recipe": "fedavg"},
    "recipe of a list": {"recipe": [1]},
    "recipe of lists": {"recipe": {"engine": []}},
    "unknown section": {"recipe": {"more": {}}},
    "hashes": {"hashes": {"test": 3}},
    "machine": {"machine": {"seconds_per_round": "long"}},
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_among_results_costs_itself_alone(known, tmp_path, kind):
    first, second = list(known.values())[:2]
    first.write(tmp_path / "good.json")
    assert read(tmp_path / "good.json") == first
    assert "/" not in json.dumps(first.recipe.shared()["data"]), "no place of this machine"
    odd = ODD[kind]
    if isinstance(odd, dict):
        odd = json.dumps(json.loads(second.model_dump_json()) | odd).encode()
    (tmp_path / "odd.json").write_bytes(odd)
    found, left = collect([tmp_path])
    assert list(found) == [first.digest]
    assert len(left) == 1
    assert "odd.json' is not the result of a run" in left[0]


def test_a_grid_may_name_its_rows_and_the_one_to_compare_with(board, tiny, known):
    rows = "rows=['fedavg', 'feda3i', 'feda3i,weighting=intra']"
    named = boards_of(tiny(rows, 'labels={"feda3i,weighting=intra"="Mine"}'), known)[0]
    assert [row[0] for row in tables_of(named)[0].rows] == ["FedAvg", "FedA3I", "Mine"]
    other = boards_of(tiny("reference=fedavg"), known)[0]
    ours = {row[1]: row[2] for row in differences(board).rows}["FedAvg"]
    turned = {row[1]: row[2] for row in differences(other).rows}["FedA3I"]
    assert [float(x) for x in ours.split(",")] == [-float(x) for x in turned.split(",")]
    assert differences(other).title.startswith("FedAvg minus each method,")


@pytest.mark.parametrize("key", ["masks", "partition", "test"])
def test_results_that_do_not_share_their_start_are_refused(tiny, known, key):
    cell = next(cell for cell in expand(tiny()) if cell.row == "gce")
    result = known[cell.digest]
    odd = result.model_copy(update={"hashes": {**result.hashes, key: "0" * 64}})
    with pytest.raises(RunError, match=f"expected the same {key} for all methods"):
        boards_of(tiny(), {**known, cell.digest: odd})


@pytest.mark.parametrize("key", ["masks", "partition"])
def test_in_the_papers_protocol_seeds_share_cases_and_masks(tiny, known, key):
    more = {}
    for cell in expand(tiny("seeds=[1]", "rows=['gce', 'clean']")):
        first = next(r for r in known.values() if r.recipe.method.name == cell.row)
        hashes = first.hashes if cell.row == "clean" else {**first.hashes, key: "0" * 64}
        more[cell.digest] = first.model_copy(update={"hashes": hashes, "recipe": cell.recipe})
    changes = ("seeds=[0, 1]", "rows=['gce', 'clean']")
    with pytest.raises(RunError, match=f"expected the same {key} for all methods"):
        boards_of(tiny(*changes), known | more)


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


def test_figures_are_drawn_the_same_every_time(board, swept, tmp_path):
    assert len(gains([board])) == 2
    assert len(gains([board, board])) == 2, "grids share runs"
    first = [path.read_bytes() for path in draw_gain([board], tmp_path / "a")]
    assert [path.read_bytes() for path in draw_gain([board], tmp_path / "b")] == first
    assert [table.name for table in tables_of(swept)] == ["tiny-sweep", "tiny-why"]
    names = [path.name for path in draw_sweep(swept, tmp_path / "c")]
    assert names == ["tiny.svg", "tiny.png"]


def test_points_of_a_sweep_are_made_of_the_same_seeds(swept):
    column = swept.columns[0]
    setting = swept.points[column][0]
    one = swept.results(column, "fedavg")[0]
    halves = {number: dice / 2 for number, dice in one.dice.items()}
    other = one.model_copy(update={"dice": halves})
    found = {**swept.found, (column, "fedavg"): {0: one, 1: other}}
    uneven = replace(swept, found=found)
    assert uneven.score(column, "fedavg").count == 2
    assert uneven.common_seeds(setting) == swept.common_seeds(setting) == [0]
    assert tables_of(uneven)[0] == tables_of(swept)[0], "the second seed stands at one point alone"
    assert tables_of(uneven)[0].note == f"Seeds that all points have: {setting}: 0."
    assert sweep_lines(uneven) == sweep_lines(swept)
    even = {place: {**found, 1: other} for place, found in swept.found.items()}
    assert replace(swept, found=even).common_seeds(setting) == [0, 1]
