import json
from dataclasses import replace

import pytest

from feda3i.bench.conduct import Conductor, agenda_of
from feda3i.bench.grid import expand, load_grid
from feda3i.bench.progress import Progress
from feda3i.bench.schedule import Task, left, startable
from feda3i.engine.run import run
from feda3i.recipe import validate


def play(agenda, folder, cores=1):
    progress = Progress(len(agenda.cells), len(agenda.done), quiet=True)
    conductor = Conductor(agenda, folder / "out", folder / "res", progress, cores=cores)
    conductor.play()
    return conductor


def test_a_bench_gives_what_its_runs_give_one_by_one(grid_file, played, tmp_path):
    agenda = agenda_of(expand(load_grid(str(grid_file))), played / "res")
    assert len(agenda.done) == len(agenda.cells) == 5
    assert not agenda.missing()
    cell = next(cell for cell in agenda.cells.values() if cell.row == "feda3i")
    engine = cell.recipe.engine.model_copy(update={"workers": 1})
    alone = run(cell.recipe.model_copy(update={"engine": engine}), tmp_path / "alone")
    assert agenda.known[cell.digest].hashes["model"] == alone.sha256
    manifest = json.loads((played / "out" / cell.name / "manifest.json").read_text())
    assert manifest["branched"] == 2


def test_methods_of_a_setting_share_all_that_they_start_from(grid_file, played):
    agenda = agenda_of(expand(load_grid(str(grid_file))), played / "res")
    for key in ("data", "test", "partition", "masks", "weights", "order"):
        assert len({result.hashes[key] for result in agenda.known.values()}) == 1
    assert len({result.hashes["model"] for result in agenda.known.values()}) == 5


def test_what_is_done_is_not_run_again_and_what_is_missing_is(grid_file, played, here, tmp_path):
    names = sorted((played / "res").iterdir())
    (tmp_path / "res").mkdir()
    for path in names[1:]:  # results are copied, run folders are not
        (tmp_path / "res" / path.name).write_bytes(path.read_bytes())
    play(agenda_of(expand(load_grid(str(grid_file))), tmp_path / "res"), tmp_path)
    assert [order["path"] for order in here] == [str(tmp_path / "out" / names[0].stem)]
    again, first = (
        json.loads((d / names[0].name).read_text()) for d in (tmp_path / "res", played / "res")
    )
    assert again["hashes"] == first["hashes"]
    assert again["cases"] == first["cases"]


def test_a_run_that_fails_is_told_and_stops_no_other(grid_file, here, tmp_path):
    grid = load_grid(str(grid_file), ["rows=['fedavg', 'gce']", "rounds=1"])
    cells = expand(grid)
    values = cells[0].recipe.to_dict()
    values["data"]["colour"] = "red"
    agenda = agenda_of(cells, tmp_path / "res")
    agenda.cells[cells[0].name] = replace(cells[0], recipe=validate(values))
    conductor = play(agenda, tmp_path)
    assert list(conductor.failed) == [cells[0].name]
    assert "has no option 'colour'" in conductor.failed[cells[0].name]
    assert (tmp_path / "res" / f"{cells[1].name}.json").exists()


def test_results_on_other_test_cases_are_noticed(grid_file, played, here, tmp_path):
    (tmp_path / "res").mkdir()
    for path in (played / "res").iterdir():
        values = json.loads(path.read_text())
        values["hashes"]["test"] = "0" * 64
        if values["recipe"]["method"]["name"] != "gce":
            (tmp_path / "res" / path.name).write_text(json.dumps(values))
    conductor = play(agenda_of(expand(load_grid(str(grid_file))), tmp_path / "res"), tmp_path)
    assert len(conductor.failed) == 1
    assert "scored on other test cases" in next(iter(conductor.failed.values()))


# -- which run next -------------------------------------------------------------------------------

TRUNK, EARLY, LATE = Task("a", "x", 9, 10), Task("b", "x", 3, 10), Task("c", "x", 7, 10)
OTHER = Task("d", "y", 0, 10)
TASKS = {task.name: task for task in (TRUNK, EARLY, LATE, OTHER)}


@pytest.mark.parametrize(
    ("waiting", "running", "expected"),
    [
        ([TRUNK, LATE, EARLY, OTHER], {}, [TRUNK, OTHER]),
        ([LATE, EARLY, OTHER], {"a": 0}, [OTHER]),
        ([LATE, EARLY, OTHER], {"a": 3}, [EARLY, OTHER]),
        ([LATE, EARLY], {"a": 7}, [LATE, EARLY]),
        ([LATE, EARLY], {}, [LATE]),
    ],
)
def test_a_run_waits_for_the_beginning_that_it_shares(waiting, running, expected):
    assert startable(waiting, running, TASKS) == expected


def test_the_time_left_counts_shared_rounds_once():
    seconds = {"": 2.0}
    assert left([TRUNK, LATE, EARLY, OTHER], {}, TASKS, seconds) == 2.0 * (10 + 3 + 7 + 10)
    assert left([LATE], {"a": 4}, TASKS, seconds) == 2.0 * (6 + 3)
