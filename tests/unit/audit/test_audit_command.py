"""``feda3i audit`` on folders, recipes, runs and surveys; no model judges masks it has seen."""

import csv
import html
import json
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr

from feda3i import recipe
from feda3i.audit import cross_fit, sources
from feda3i.audit.assemble import build_audit, looks_of
from feda3i.audit.audit_page import page_of
from feda3i.audit.cross_fit import Predicted
from feda3i.audit.estimators import ESTIMATORS
from feda3i.audit.sources import from_federation, without_seen
from feda3i.audit.writing import text_of, write_audit
from feda3i.core.cases import Cases
from feda3i.core.predictor import label_map
from feda3i.engine.console import Silent
from feda3i.engine.run import run
from feda3i.engine.run_folder import hash_log
from feda3i.simulation.federation import federation_of
from short import TINY

SMALL = ("data.sites=3", "data.cases=8", "data.size=32", "model.width=4", "engine.workers=1")


def hash_again(run):
    """Write the hash of a log that a test has changed, as the end of a run does."""
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    manifest["events_sha256"] = hash_log(run)
    (run / "manifest.json").write_text(json.dumps(manifest))


def verdicts(folder):
    found = json.loads((folder / "audit.json").read_text("utf-8"))
    return {one["site"]: one["verdict"] for one in found["findings"]}


class Oracle:
    """A model that knows some masks by heart, and nothing else."""

    def __init__(self, federation, sites):
        self.known = np.concatenate([np.asarray(index) for index in sites.values()])
        self.images = federation.train.images
        self.asked = []

    def probabilities(self, images):
        for one in images:
            self.asked += np.flatnonzero((self.images == one).all(axis=(1, 2, 3))).tolist()
        return np.zeros((len(images), 1, *images.shape[1:-1]), np.float32)


def right(train, *others):
    """Return what models predict that draw these masks, and are sure of them."""
    first, *rest = (Predicted(masks, masks) for masks in (train, *others))
    return first, rest


def test_no_model_judges_a_case_that_it_was_trained_on(monkeypatch):
    wanted = recipe.load("demo", SMALL)
    federation = federation_of(wanted)
    models = []

    def train(named, halved, listener):
        models.append(Oracle(federation, halved.sites))
        return models[-1]

    monkeypatch.setattr(cross_fit, "train", train)
    cross_fit.cross_predict(wanted, federation, [federation.test])
    assert len(models) == 2
    asked = np.concatenate([model.asked for model in models])
    assert sorted(asked) == list(range(len(federation.train)))
    for model in models:
        assert not set(model.asked) & set(model.known)


def test_the_warm_up_takes_about_as_many_steps_as_asked():
    for cases, batch in [(8, 8), (16, 4), (3, 8)]:
        wanted = recipe.load(
            "demo", [*SMALL, f"data.cases={cases}", f"train.batch={batch}", "method=feda3i"]
        )
        federation = federation_of(wanted)
        warm = cross_fit.warm_up_recipe(wanted, federation, 240)
        half = max(1, cases // 2)
        steps = warm.rounds * warm.train.epochs * -(-half // warm.train.batch)
        assert 180 <= steps <= 300
        assert warm.method.name == "fedavg"


def test_offsets_follow_the_annotators_if_the_model_is_right(monkeypatch):
    wanted = recipe.load("demo", ["data.sites=12", "data.cases=8", "data.size=64"])
    federation = federation_of(wanted)
    clean = federation.clean_masks
    monkeypatch.setattr(
        sources, "cross_predict", lambda *_: right(clean, federation.test.masks[:0])
    )
    found = from_federation(
        wanted, federation, None, title="t", estimators=["contour"], listener=Silent()
    )
    audit = build_audit(found)
    offset = [one.relative for one in audit.findings]
    true = [audit.true[one.site] for one in audit.findings]
    assert spearmanr(offset, true).statistic > 0.95
    large = [one for one in audit.findings if audit.true[one.site] - np.mean(true) > 2]
    assert large
    assert {one.verdict for one in large} == {"larger"}


def test_a_site_that_misses_objects_is_named_everywhere(monkeypatch, tmp_path):
    wanted = recipe.load("demo", ["data.sites=4", "data.cases=12", "data.size=64", "noise=none"])
    federation = federation_of(wanted)
    clean, masks = federation.train.masks, np.array(federation.train.masks)
    masks[federation.sites["site-02"][:6]] = 0
    monkeypatch.setattr(
        sources, "cross_predict", lambda *_: right(clean, federation.test.masks[:0])
    )
    found = from_federation(
        wanted,
        federation.with_masks(masks),
        None,
        title="t",
        estimators=ESTIMATORS,
        listener=Silent(),
    )
    audit = build_audit(found)
    flagged = [(one.site, one.kind) for one in audit.objects if one.is_flagged]
    assert flagged == [("site-02", "missing"), ("site-02", "empty")]
    said = "site-02 leaves 50 % (25 to 75 %) of its cases empty where the model sees an object"
    page = page_of(audit)
    assert said in text_of(audit)
    assert said in html.unescape(page)
    made = write_audit(tmp_path, audit, {}, found.classes, page)
    assert len(made) == 3
    lines = {one["site"]: one for one in csv.DictReader((tmp_path / "audit.csv").open())}
    assert [lines[site]["empty"] for site in ("site-01", "site-02")] == ["0.0", "0.5"]
    written = json.loads((tmp_path / "audit.json").read_text("utf-8"))["objects"]
    assert [one["site"] for one in written if one["is_flagged"]] == ["site-02", "site-02"]


def test_an_estimator_without_a_model_trains_none(monkeypatch):
    wanted = recipe.load("demo", SMALL)
    federation = federation_of(wanted)
    monkeypatch.setattr(sources, "cross_predict", lambda *_: pytest.fail("a model was trained"))
    found = from_federation(
        wanted, federation, None, title="t", estimators=["edges"], listener=Silent()
    )
    audit = build_audit(found)
    assert audit.how == "the images alone, without a model"
    assert all(one.relative is not None and one.wobble is None for one in audit.findings)
    looks = [look for mine in looks_of(found).values() for look in mine]
    assert looks
    assert all(math.isnan(look.misfit) and math.isfinite(look.offset) for look in looks)


def test_contour_and_edges_agree_on_clear_images(monkeypatch):
    wanted = recipe.load("demo", ["data.sites=8", "data.cases=10", "data.size=64"])
    federation = federation_of(wanted)
    clean, good = federation.clean_masks, federation.test
    for trusted in (None, good):
        others = [good.masks[:0]] + ([] if trusted is None else [good.masks])
        monkeypatch.setattr(sources, "cross_predict", lambda *_, o=others: right(clean, *o))
        found = from_federation(
            wanted,
            federation,
            None,
            title="t",
            estimators=ESTIMATORS,
            listener=Silent(),
            trusted=trusted,
        )
        audit = build_audit(found)
        assert audit.is_absolute == (trusted is not None)
        known = [one for one in audit.findings if not one.silent]
        assert len(known) >= 4
        assert audit.overall[0].agreement > 0.8
        text = text_of(audit)
        assert "by edges" in text
        assert ("answer is absolute" if trusted else "answer is relative") in text
        if trusted is not None:
            wrong = [one.by_estimator["edges"][0] - audit.true[one.site] for one in known]
            assert abs(np.median(wrong)) < 1


def test_seen_masks_count_only_if_there_are_no_others():
    row = sources.CaseRow("a", "A", 1, {"contour": 1.0}, 1.0, 0.9, True, True, True)
    new = sources.CaseRow("b", "A", 1, {"contour": 1.0}, 1.0, 0.9, True, True, False)
    kept, said = without_seen([row] * 9 + [new] * 9)
    assert kept == [new] * 9
    assert "not trained on" in said[0]
    kept, said = without_seen([row] * 9 + [new])
    assert len(kept) == 10
    assert "--retrain" in said[0]
    assert without_seen([new]) == ([new], [])


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory):
    """Return a finished run of FedA3I with three sites, whose survey says what we want."""
    path = tmp_path_factory.mktemp("audited") / "run"
    run(recipe.load("demo", [*TINY, *SMALL, "method=feda3i", "method.t1=1"]), path)
    lines = [json.loads(line) for line in (path / "events.jsonl").read_text("utf-8").splitlines()]
    for event in lines:
        if event["event"] == "round" and "survey" in event:
            event["survey"]["parts"][0]["offset"] = [[0.1, 0.1], [4.0, 0.2], [0.0, 0.1]]
            assert [len(one) for one in event["survey"]["objects"].values()] == [6, 6, 6]
            counts = [[40, 40, 38, 0, 20, 0], [40, 25, 24, 0, 20, 0], [40, 41, 40, 0, 20, 0]]
            event["survey"]["objects"] = dict(zip(event["survey"]["sites"], counts, strict=True))
    (path / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in lines))
    hash_again(path)
    return path


def test_a_survey_is_audited_without_pixels(feda3i, surveyed, tmp_path):
    code, out, err = feda3i("audit", surveyed, "--survey", "--out", tmp_path / "a")
    assert code == 0, err
    assert verdicts(tmp_path / "a") == {
        "site-01": "smaller",
        "site-02": "larger",
        "site-03": "smaller",
    }
    assert "no case and no pixel left it" in out
    assert "site-02 misses 40 % (26 to 55 %) of the objects that the model sees" in out
    assert "the middle one of three sites 5 %" in out
    assert "site-03 misses" not in out
    assert not (tmp_path / "a" / "stays-at-the-site").exists()


def test_offsets_of_patched_cases_are_in_pixels_at_256():
    """The side of a patch says nothing about the cases."""
    patched = recipe.load("hippocampus", ["data=synthetic-volumes"])
    assert max(patched.train.patch) < 256
    assert sources._size(SimpleNamespace(recipe=lambda: patched)) == 256


def test_the_server_of_a_federation_has_nothing_but_its_survey(feda3i, surveyed, tmp_path):
    copy = tmp_path / "server"
    shutil.copytree(surveyed, copy)
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    (copy / "manifest.json").write_text(json.dumps({**manifest, "engine": "flower"}))
    code, _, err = feda3i("audit", copy)
    assert code == 0, err
    assert verdicts(copy / "audit")["site-02"] == "larger"
    code, out, err = feda3i("audit", copy)  # nothing is replaced
    assert code == 0, err
    assert str(copy / "audit-2" / "audit.html") in out


def test_a_run_is_judged_by_its_early_model_or_anew(feda3i, surveyed, tmp_path):
    code, out, err = feda3i("audit", surveyed, "--out", tmp_path / "a", "--quiet")
    assert code == 0, err
    assert "the warmed-up model with which this run surveyed its sites" in out
    assert "--retrain" in out
    code, out, err = feda3i(
        "audit", surveyed, "--retrain", "--steps", "2", "--out", tmp_path / "b", "--quiet"
    )
    assert code == 0, err
    assert "each judges the other half" in out
    # What models of two steps see differs between processors; every site gets an answer.
    assert list(verdicts(tmp_path / "b")) == ["site-01", "site-02", "site-03"]
    lists = sorted((tmp_path / "b" / "stays-at-the-site").iterdir())
    assert [path.name for path in lists] == ["site-01", "site-02", "site-03"]


def test_a_folder_with_a_given_model_or_trusted_masks(feda3i, surveyed, tmp_path, monkeypatch):
    from PIL import Image

    federation = federation_of(recipe.load("demo", [*SMALL, "noise=none", "data.test=8"]))
    for site, index in federation.sites.items():
        _write(Image, tmp_path / "data" / site, federation.train.take(np.asarray(index)))
    _write(Image, tmp_path / "good", federation.test)
    options = ("--model", surveyed, "--out", tmp_path / "a", "--quiet")
    code, out, err = feda3i("audit", tmp_path / "data", *options)
    assert code == 0, err
    assert "the model 'run'" in out
    assert set(verdicts(tmp_path / "a")) == set(federation.names())
    # Models that draw exactly as the trusted masks and the sites: nobody is off.
    drawn = lambda _, given, others, *__: right(given.train.masks, *[one.masks for one in others])
    monkeypatch.setattr(sources, "cross_predict", drawn)
    options = ("--trusted", tmp_path / "good", "data.size=32", "--out", tmp_path / "b", "--quiet")
    code, out, err = feda3i("audit", tmp_path / "data", *options)
    assert code == 0, err
    assert "zero is where those were drawn" in out
    assert not {"larger", "smaller"} & set(verdicts(tmp_path / "b").values())


def _write(image, folder, cases: Cases):
    for name, pixels, masks in (("images", cases.images, None), ("masks", None, cases.masks)):
        (folder / name).mkdir(parents=True)
        for place, case in enumerate(cases.ids):
            array = pixels[place] if pixels is not None else 255 * masks[place]
            image.fromarray(np.squeeze(array)).save(folder / name / f"{case}.png")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "x", "--retrain"], "exclude each other"),
        (["--survey", "--retrain"], "leave the other options out"),
        (["--margin", "-1"], "expected a distance above 0"),
        (["--estimator", "contur"], "did you mean 'contour'"),
        (["rounds=3"], "a run has its recipe"),
    ],
)
def test_wrong_wishes(feda3i, surveyed, options, said):
    code, _, err = feda3i("audit", surveyed, *options)
    assert code == 2
    assert said in err


def test_a_run_without_a_survey_or_offsets_says_so(feda3i, finished, surveyed, tmp_path):
    code, _, err = feda3i("audit", finished, "--survey")
    assert code == 1
    assert "has no survey to audit" in err
    copy = tmp_path / "paper"
    shutil.copytree(surveyed, copy)
    text = (copy / "events.jsonl").read_text("utf-8").replace('"offset": [[0.1', '"other": [[0.1')
    (copy / "events.jsonl").write_text(text)
    hash_again(copy)
    code, _, err = feda3i("audit", copy, "--survey")
    assert code == 1
    assert "sent no offsets" in err
    code, _, err = feda3i("audit", tmp_path / "nowhere")
    assert code == 2
    assert "there is no folder" in err


@pytest.mark.parametrize(
    ("part", "other"), [('"sites": [', '"sits": ['), ("[[0.1", "[[[0.1], 0.1")]
)
def test_a_damaged_survey_is_an_error_of_ours(feda3i, surveyed, tmp_path, part, other):
    copy = tmp_path / "damaged"
    shutil.copytree(surveyed, copy)
    lines = (copy / "events.jsonl").read_text("utf-8").splitlines()
    spoilt = [line.replace(part, other) if '"survey"' in line else line for line in lines]
    (copy / "events.jsonl").write_text("\n".join(spoilt) + "\n")
    hash_again(copy)
    code, _, err = feda3i("audit", copy, "--survey", "--out", tmp_path / "a")
    assert code == 1
    assert "is damaged" in err


def test_label_map_of_no_case_is_no_mask():
    assert label_map(np.zeros((0, 1, 4, 4), np.float32)).shape == (0, 4, 4)
