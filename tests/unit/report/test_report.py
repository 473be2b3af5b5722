"""The report: its figures are those of the logs, whatever state the runs are in."""

import contextlib
import json
import re
from itertools import product

import numpy as np
import pytest
from safetensors.numpy import save_file

from fake_runs import change_manifest, events_of, fake_run, write_events
from feda3i.engine.events import read_events
from feda3i.errors import FedA3IError, RunError
from feda3i.report.build import report_page, write_report
from feda3i.report.compare import gain, group_runs, over_seeds, site_dice, steady_dice
from feda3i.report.runs import find_runs, read_run
from pages import HOSTILE, check_inert, read
from short import TINY


def page_of(*paths):
    return report_page([read_run(path) for path in paths])


def words(page):
    return " ".join("".join(read(page.partition("</style>")[2]).texts).split())


@pytest.fixture
def compared(tmp_path):
    """Return three seeds of two methods."""
    return [
        fake_run(tmp_path / f"{method}-{seed}", method=method, seed=seed, start=0.5 + 0.01 * seed)
        for method in ("fedavg", "feda3i")
        for seed in range(3)
    ]


def test_figures_are_means_and_spreads_over_seeds(compared, tmp_path):
    other = fake_run(tmp_path / "other", method="feda3i", setting="skin-ns")
    groups = group_runs([read_run(path) for path in [*compared, other]])
    assert [(g.label, g.setting, len(g.runs)) for g in groups] == [
        ("fedavg", "noise.setting = skin-ne", 3),
        ("feda3i", "noise.setting = skin-ne", 3),
        ("feda3i", "noise.setting = skin-ns", 1),
    ]
    assert [run.recipe.seed for run in groups[0].runs] == [0, 1, 2]
    groups = groups[:2]
    steady = [steady_dice(run) for run in groups[0].runs]
    assert steady == pytest.approx([0.55, 0.56, 0.57])
    assert over_seeds(steady).deviation == pytest.approx(0.01)
    # Two of four rounds are 0.05 better, seed by seed.
    assert gain(groups[1], groups).values == pytest.approx([2.5] * 3)
    assert gain(groups[0], groups).mean is None
    dice, where = site_dice(groups[0].runs[0])
    assert min(dice, key=dice.get) == "site-04"
    assert where == "training cases of each site, against their clean masks"
    text = words(page_of(*compared))
    for shown in ("0.560 ± 0.010", "+2.5 ± 0.0", "Mean ± standard deviation over seeds"):
        assert shown in text


def test_every_section_is_there_with_its_table(compared):
    page = page_of(*compared)
    assert "data:image" not in page, "no pixels unless they are asked for"
    assert "<image" not in page
    assert re.findall('<section id="([a-z]+)"', page) == [
        *("results", "learning", "survey", "weights", "sites", "wire", "run")
    ]
    reader = read(page)
    assert reader.tags.count("figure") == reader.tags.count("figcaption")
    plots = reader.tags.count("desc")
    assert plots == sum(1 for k, v in reader.attributes if (k, v) == ("class", "plot"))
    assert reader.tags.count("table") >= plots
    assert reader.tags.count("table") == reader.tags.count("caption")
    assert ("lang", "en") in reader.attributes
    assert "<title>site-01: draws smaller; inside 0.300" in page, "tips without scripts"
    text = words(page)
    assert "6 of 6 sites" not in text
    assert "The group is right for 4 of 4 sites" in text
    assert "best of 2 among those who draw larger" in text
    assert "Images, masks and predictions stay at the sites" in text


def test_a_cut_log_still_gives_a_report_that_says_so(tmp_path):
    path = fake_run(tmp_path / "run", rounds=6, is_done=False)
    log = path / "events.jsonl"
    lines = log.read_text("utf-8").splitlines(keepends=True)
    log.write_text("".join(lines[:9]) + lines[9][:100])
    text = words(page_of(path))
    assert "it is not finished: its log ends after round 4 of 6" in text
    assert "0.630" in text, "Dice of round 4"


@pytest.mark.parametrize("cut", range(0, 4000, 411))
def test_a_log_can_be_cut_anywhere(tmp_path, cut):
    path = fake_run(tmp_path / "run", is_done=False)
    data = (path / "events.jsonl").read_bytes()
    (path / "events.jsonl").write_bytes(data[: len(data) - cut])
    assert "Not as it should be" in words(page_of(path))


def test_a_damaged_folder_is_left_out_and_named(feda3i, tmp_path, compared):
    for name, change in {
        "manifest": lambda p: (p / "manifest.json").write_text("{"),
        "version": lambda p: change_manifest(p, feda3i="0.1.0"),
        "recipe": lambda p: (p / "recipe.toml").unlink(),
        "log": lambda p: (p / "events.jsonl").write_text("nonsense\n"),
        "survey": lambda p: write_events(p, [e | {"survey": {}} for e in events_of(p)]),
        "sizes": lambda p: write_events(p, map(with_few_weights, events_of(p))),
    }.items():
        path = fake_run(tmp_path / "odd" / name)
        change(path)
        code, _, err = feda3i("report", path)
        assert code == 1
        assert str(path) in err
    code, _, err = feda3i("report", *compared, tmp_path / "odd", "--out", tmp_path / "r.html")
    assert code == 0
    assert err.count("NOTE: ") == 6
    assert "6 finished" in words((tmp_path / "r.html").read_text("utf-8"))


def with_few_weights(event):
    if "survey" in event:
        event["survey"]["parts"][0]["weights"] = [1.0]
    return event


ODD = [None, True, -1, 10**400, "x", [], {}, [[]], {"a": None}, 1e308, float("nan")]


def some_odd(names):
    """Yield each name with two odd values, so that all values meet some names."""
    for k, name in enumerate(names):
        for j in range(2):
            yield name, ODD[(2 * k + j) % len(ODD)]


EVERY = pytest.param(lambda names: product(names, ODD), marks=pytest.mark.slow, id="all")


@pytest.mark.parametrize("pairs", [some_odd, EVERY])
def test_values_of_other_kinds_are_shown_or_refused(tmp_path, pairs):
    """Somebody else may have written anything under a known name: there is no other error."""
    path = fake_run(tmp_path / "run", rounds=2)
    events, manifest = events_of(path), json.loads((path / "manifest.json").read_text("utf-8"))

    def look():
        with contextlib.suppress(FedA3IError):
            assert '<section id="run"' in page_of(path)

    names = dict.fromkeys(key for event in events for key in event if key != "event")
    for key, odd in pairs([*names, "survey_missing", "t1_reason", "offsets"]):
        changed = [{**e, key: odd} if key in e or e["event"] == "round" else e for e in events]
        write_events(path, changed)
        look()
    write_events(path, events)
    data = manifest["data"]
    changes = [{key: odd} for key, odd in pairs(manifest)]
    for change in [*changes, *({"data": {**data, key: odd}} for key, odd in pairs(data))]:
        change_manifest(path, **{**manifest, **change})
        look()


def test_hostile_names_of_sites_and_cases_stay_text(tmp_path):
    names = [name for name in HOSTILE if not re.search("[\x00\ud800]", name)]
    path = fake_run(tmp_path / "run", names=names)
    write_report([read_run(path)], tmp_path / "out.html")
    check_inert((tmp_path / "out.html").read_text(encoding="utf-8"))


def test_a_report_of_many_runs_stays_small(tmp_path):
    """Fifty sites, a hundred rounds, five seeds of two methods: below 3 MB."""
    about = {"sites": 50, "rounds": 100, "test": 20}
    each = product(("fedavg", "feda3i"), range(5))
    runs = [fake_run(tmp_path / f"{m}-{s}", method=m, seed=s, **about) for m, s in each]
    assert len(page_of(*runs).encode()) < 3_000_000


def test_warnings_name_what_makes_figures_uncertain(tmp_path):
    path = fake_run(tmp_path / "run", sites=4, rounds=6)
    missing = {"missing": {"site-02": "no answer <b>in time</b>"}}
    events = (e | missing | {"loss": 1 / e["round"]} if "loss" in e else e for e in events_of(path))
    write_events(path, events)
    text = words(page_of(path))
    assert "few sites: two groups of 4 rated sites are a guess" in text
    assert "unconverged warm-up: the training loss still fell by 67 %" in text
    assert "site-02 did not answer in 6 of 6 rounds; last reason: no answer <b>in time</b>" in text


def test_runs_on_other_data_are_not_compared_in_silence(tmp_path):
    paths = [fake_run(tmp_path / m, method=m) for m in ("fedavg", "feda3i")]
    data = read_run(paths[0]).data | {"sha256": "f" * 64}
    change_manifest(paths[0], data=data)
    text = words(page_of(*paths))
    assert "saw different data" in text
    assert "One seed each: no spread is known" in text
    assert "a point or two may be chance" in text


def test_runs_are_found_below_a_folder(tmp_path, compared):
    assert find_runs([tmp_path]) == sorted(compared)
    others = sorted(run for run in compared if run != compared[1])
    assert find_runs([compared[1], tmp_path]) == [compared[1], *others]


def test_the_command_writes_a_file_and_says_where(feda3i, tmp_path, compared):
    code, out, err = feda3i("report", tmp_path)
    assert (code, out.strip(), err) == (0, f"{tmp_path}/report.html", "")
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    code, out, _ = feda3i("report", *compared, "--out", tmp_path / "x" / "y.html")
    assert (code, out.strip()) == (0, f"{tmp_path}/x/y.html")
    (tmp_path / "empty").mkdir()
    for name in ("empty", "none"):
        code, _, err = feda3i("report", tmp_path / name)
        assert code == 1
        assert f"expected a run folder at '{tmp_path}/{name}'" in err


def test_a_run_ends_with_its_report(feda3i, tmp_path):
    code, out, _ = feda3i("run", "demo", *TINY, "method=fedavg", "--out", tmp_path / "r", "-q")
    assert code == 0
    assert f"report {tmp_path}/r/report.html" in out.splitlines()
    scores = list(read_events(tmp_path / "r" / "events.jsonl", "score"))
    assert {row["site"] for row in scores[-1]["rows"]} == {"site-01", "site-02"}
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert "data:image" not in page
    assert "site-01" in page
    code, out, err = feda3i("report", tmp_path / "r", "--gallery", 2)
    assert code == 0, err
    target = tmp_path / "r" / "report-with-images.html"
    assert out.strip() == str(target)
    assert target.stat().st_mode & 0o077 == 0, "images are for the user alone"
    page = target.read_text("utf-8")
    assert page.count("data:image/png") == 4, "two test cases, two training cases"
    assert "THIS FILE HOLDS IMAGES" in page
    for kind in ("clean", "given", "predicted"):
        assert re.search(f'<path d="M[^"]*" class="{kind}"', page), kind


def test_a_finished_run_does_not_fail_for_want_of_a_report(feda3i, tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("feda3i.report.build.write_report", broken)
    code, out, err = feda3i("run", "demo", *TINY, "method=fedavg", "--out", tmp_path / "r", "-q")
    assert code == 0
    assert "report" not in out
    assert "no report was written: the disk is full" in err


def test_a_gallery_needs_the_pixels_of_the_run(feda3i, tmp_path):
    path = fake_run(tmp_path / "run")
    code, out, err = feda3i("report", path, "--gallery", 3)
    assert code == 0
    assert out.strip() == f"{path}/report.html", "a page without pixels"
    assert "no gallery of" in err
    code, _, err = feda3i("report", path, "--data", tmp_path)
    assert code == 2
    assert "--gallery" in err


def test_a_consortium_is_scored_at_its_sites(tmp_path):
    """Over a network sites send means under their own names."""
    path = fake_run(tmp_path / "run", method="fedavg", is_simulated=False)
    rows = [{"case": f"site-0{k}", "class": 1, "dice": 0.5 + 0.1 * k} for k in (1, 2)]
    write_events(path, [e | {"rows": rows} if "rows" in e else e for e in events_of(path)])
    dice, where = site_dice(read_run(path))
    assert dice == pytest.approx({"site-01": 0.6, "site-02": 0.7})
    assert where == "test cases of each site"


def test_a_simulation_tells_the_size_of_its_replies(tmp_path):
    path = fake_run(tmp_path / "run", method="fedavg")
    assert "cannot be said without a finished model" in words(page_of(path))
    save_file({"w": np.zeros(1000, np.float32)}, path / "model.safetensors", {"recipe": "x" * 99})
    assert "16 kB from each of 4 sites, 64 kB in all" in words(page_of(path))


def test_the_headline_says_of_how_many_rounds_it_is_the_mean(tmp_path):
    runs = {k: fake_run(tmp_path / f"r{k}", rounds=k, seed=k) for k in (1, 2, 4, 5, 7)}
    for rounds, said in [
        ([1], "Dice is that of the only scored round;"),
        ([4], "Dice is the mean of the 4 scored rounds;"),
        ([5, 7], "Dice is the mean of the last 5 scored rounds;"),
        ([2, 7], "Dice is the mean of the last 5 scored rounds, or of as many as there are;"),
    ]:
        assert said in words(page_of(*(runs[k] for k in rounds)))


def test_few_sites_are_named_in_the_survey_plane(tmp_path):
    few, many = (fake_run(tmp_path / f"{n}", sites=n) for n in (6, 30))
    written = [re.findall('class="soft">(site-[0-9]+)<', page_of(path)) for path in (few, many)]
    assert sorted(written[0]) == [f"site-0{k + 1}" for k in range(6)]
    assert not written[1], "the dots tell them"


def test_reference_rows_stand_last_and_do_not_win(tmp_path):
    fake_run(tmp_path / "a", method="clean", start=0.9)
    fake_run(tmp_path / "b", method="fedavg")
    groups = group_runs([read_run(path) for path in find_runs([tmp_path])])
    assert [group.method for group in groups] == ["fedavg", "clean"]
    page = page_of(tmp_path / "a", tmp_path / "b")
    assert "trains on perfect masks: a ceiling" in words(page)
    best = re.search(r'<td class="num best"[^>]*>([\d.]+)', page).group(1)
    assert best == "0.550"


def test_every_site_is_shown_before_and_after_and_damaged_numbers_are_refused(tmp_path):
    path = fake_run(tmp_path / "run", method="redraw", sites=3, rounds=1)
    assert "Masks redrawn" not in page_of(path)

    def told(offsets, moved):
        facts = {"offsets": offsets, "moved": moved}
        events = [e | facts if e["event"] == "round" else e for e in events_of(path)]
        write_events(path, events)
        return page_of(path)

    offsets = {"site-01": [[-2.5, 0.3, 8, 30.0]], "site-02": [[0.0, 0.0, 0, 0.0]]}
    offsets["site-03"] = [[4.5, 1, 9, 30.0]]
    page = told(offsets, {"site-01": [2.5], "site-02": [0.0], "site-03": [-4.0]})
    assert "Masks redrawn" in page
    assert "2 of 3 sites moved their contours, 1 cannot tell" in page
    assert "site-03: drawn +4.5 ± 1.0 px at 256, trained on +0.5" in page
    row = re.search(r"<tr[^>]*>(?:(?!</tr>).)*cannot tell.*?</tr>", page, re.S)
    assert "site-02" in row.group()
    assert "data:image" not in page
    with pytest.raises(RunError, match="offsets"):
        told({"site-01": [["x", 1, 2]]}, {})
