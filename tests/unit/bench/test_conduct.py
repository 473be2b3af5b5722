import json
import re
import shutil
from dataclasses import replace

import pytest

from feda3i.bench.conduct import rounds_to_train
from feda3i.engine.run import run
from feda3i.recipe import validate

SHORT = ("rows=['fedavg', 'gce']", "rounds=1")


def test_a_bench_gives_what_its_runs_give_one_by_one(agenda, played, tmp_path):
    done = agenda(played / "res")
    assert len(done.tasks) == 5
    assert not done.missing
    cell = next(task.cell for task in done.tasks.values() if task.cell.row == "feda3i")
    engine = cell.recipe.engine.model_copy(update={"workers": 1})
    alone = run(cell.recipe.model_copy(update={"engine": engine}), tmp_path / "alone")
    assert done.known[cell.digest].hashes["model"] == alone.sha256
    manifest = json.loads((played / "out" / cell.name / "manifest.json").read_text("utf-8"))
    assert manifest["branched"] == 2
    for key in ("data", "test", "partition", "masks"):
        assert len({result.hashes[key] for result in done.known.values()}) == 1
    assert len({result.hashes["model"] for result in done.known.values()}) == 5


def test_what_is_done_is_not_run_again_and_what_is_missing_is(agenda, played, play, tmp_path):
    gone = shutil.ignore_patterns("*gce*")  # results are copied, run folders are not
    shutil.copytree(played / "res", tmp_path / "res", ignore=gone)
    orders, failed = play(agenda(tmp_path / "res"), tmp_path)
    assert ["gce" in order.path.name for order in orders] == [True]
    assert not failed
    name = orders[0].result.name
    again, first = (json.loads((d / "res" / name).read_text("utf-8")) for d in (tmp_path, played))
    assert again["hashes"] == first["hashes"]
    assert again["cases"] == first["cases"]


def test_a_run_that_fails_is_told_and_stops_no_other(agenda, play, tmp_path):
    given = agenda(tmp_path / "res", *SHORT)
    first, other = given.tasks
    values = given.tasks[first].cell.recipe.to_dict()
    values["data"]["colour"] = "red"
    cell = replace(given.tasks[first].cell, recipe=validate(values))
    given.tasks[first] = given.tasks[first]._replace(cell=cell)
    _, failed = play(given, tmp_path)
    assert list(failed) == [cell.name]
    assert "has no option 'colour'" in failed[cell.name]
    assert (tmp_path / "res" / f"{other}.json").exists()


@pytest.mark.slow
def test_a_full_disk_costs_the_runs_that_it_hits_and_says_so(agenda, play, tmp_path):
    given = agenda(tmp_path / "res", *SHORT)
    (tmp_path / "res").symlink_to("/dev/full")  # the folder of results cannot be made
    _, failed = play(given, tmp_path)
    assert len(failed) == 2
    assert not re.search("bug", " ".join(failed.values()))


def test_a_family_begins_with_its_longest_run_and_shared_rounds_count_once(agenda, tmp_path):
    missing = agenda(tmp_path).missing
    rows = [task.cell.row for task in missing]
    assert rows == ["fedavg", "feda3i,weighting=intra", "feda3i", "gce", "clean"]
    assert len({task.family for task in missing}) == 3
    assert rounds_to_train(missing) == [3, 1, 1, 3, 3]
