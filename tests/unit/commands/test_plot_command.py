"""``feda3i plot`` draws from event logs: several seeds of one recipe become a band."""

import json
from pathlib import Path

from feda3i.commands.plot import by_seed
from feda3i.engine.events import read_events
from feda3i.engine.run_folder import RunFolder
from feda3i.simulation.annotation import true_offsets
from short import TINY


def test_pictures_of_runs(feda3i, tmp_path):
    runs = []
    for name, extra in {"a0": [], "a1": ["seed=1"], "b": ["method=fedavg"]}.items():
        runs.append(tmp_path / name)
        options = (*TINY, "method=feda3i", "method.t1=1", *extra)
        code, _, err = feda3i("run", "demo", *options, "--out", runs[-1], "--quiet")
        assert code == 0, err
    code, out, _ = feda3i("plot", *runs, "--out", tmp_path / "p")
    assert code == 0
    names = ["a0-survey", "a0-weights", "a1-survey", "a1-weights", "curves"]
    files = [f"{tmp_path}/p/{name}.{kind}" for name in names for kind in ("png", "svg")]
    assert sorted(out.split()) == files
    assert all(Path(file).stat().st_size > 1000 for file in files)
    rounds = {run: list(read_events(run / "events.jsonl", "round")) for run in runs}
    named = by_seed(rounds)
    assert [len(seeds) for seeds in named.values()] == [2, 1]
    assert list(named)[1] == "b"
    assert "seed" not in next(iter(named))
    assert true_offsets(RunFolder.open(runs[0]).manifest()["data"]["notes"])
    code, out, _ = feda3i("plot", runs[2])
    assert out.split() == [f"{runs[2]}/pictures/curves.{kind}" for kind in ("png", "svg")]


def test_a_survey_that_weighs_nobody_is_drawn_without_weights(feda3i, tmp_path, finished):
    for file in ("manifest.json", "recipe.toml"):
        (tmp_path / file).write_bytes((finished / file).read_bytes())
    part = {"q": [[0.2, 0.3], [0.3, 0.2]], "statistic": "mean", "class_number": 1}
    rating = {"sites": ["A", "B"], "parts": [{**part, "grouping": {"labels": ["all", "all"]}}]}
    events = [
        {"event": "start", "stages": ["inc", "outc"]},
        {"event": "round", "round": 1, "dice": 0.5, "survey": rating},
    ]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    code, out, err = feda3i("plot", tmp_path, "--out", tmp_path / "p")
    assert code == 0, err
    assert [Path(line).name for line in out.split()[::2]] == ["curves.png", "survey.png"]


def test_a_run_without_scores_is_refused(feda3i, tmp_path, finished):
    (tmp_path / "run").mkdir()
    for file in ("manifest.json", "recipe.toml"):
        (tmp_path / "run" / file).write_bytes((finished / file).read_bytes())
    (tmp_path / "run" / "events.jsonl").write_text("")
    code, _, err = feda3i("plot", tmp_path / "run")
    assert code == 1
    assert "expected runs with a scored round" in err


def test_pictures_for_papers_bring_their_letters_along(feda3i, tmp_path, finished):
    for out in ("a", "b"):
        code, _, err = feda3i("plot", finished, "--out", tmp_path / out, "--formats", "svg, pdf")
        assert code == 0, err
    svg = (tmp_path / "a" / "curves.svg").read_text()
    assert "<text" not in svg, "letters are outlines: no font is needed"
    assert svg == (tmp_path / "b" / "curves.svg").read_text(), "the same run, the same file"
    pdf = (tmp_path / "a" / "curves.pdf").read_bytes()
    assert b"/FontFile2" in pdf, "the font is embedded"
    assert not (tmp_path / "a" / "curves.png").exists()
    code, _, err = feda3i("plot", finished, "--formats", "gif")
    assert code == 2
    assert "expected png, svg, pdf" in err
