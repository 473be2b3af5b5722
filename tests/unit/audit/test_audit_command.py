"""``feda3i audit`` on folders, recipes, runs and surveys; no model judges masks it has seen."""

import csv
import html
import json
import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr

from data_files import save, save_volume
from feda3i import recipe
from feda3i.audit import cross_fit, sources
from feda3i.audit import surveyed as from_server
from feda3i.audit.audit_page import page_of
from feda3i.audit.cross_fit import Predicted
from feda3i.audit.sources import from_federation
from feda3i.audit.writing import text_of, write_audit
from feda3i.commands.audit import keys_of_format
from feda3i.core.format import Format
from feda3i.engine.console import Silent
from feda3i.engine.run import run
from feda3i.engine.run_folder import hash_file
from feda3i.simulation.federation import federation_of
from short import TINY

SMALL = ("data.sites=3", "data.cases=8", "data.size=32", "model.width=4", "engine.workers=1")


def verdicts(folder):
    return {one["site"]: one["verdict"] for one in csv.DictReader((folder / "audit.csv").open())}


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


def test_no_model_judges_a_case_that_it_was_trained_on(monkeypatch):
    wanted = recipe.load("demo", SMALL)
    federation = federation_of(wanted)
    models = []

    def train(named, halved, listener):
        models.append(Oracle(federation, halved.sites))
        return models[-1]

    monkeypatch.setattr(cross_fit, "train", train)
    cross_fit.cross_predict(wanted, federation, federation.test, Silent())
    assert len(models) == 2
    asked = np.concatenate([model.asked for model in models])
    assert sorted(asked) == list(range(len(federation.train)))
    for model in models:
        assert not set(model.asked) & set(model.known)


@pytest.mark.parametrize(("cases", "batch"), [(8, 8), (16, 4), (3, 8)])
def test_the_warm_up_takes_about_as_many_steps_as_asked(cases, batch):
    changes = (f"data.cases={cases}", f"train.batch={batch}", "method=feda3i")
    wanted = recipe.load("demo", [*SMALL, *changes])
    warm = cross_fit.warm_up_recipe(wanted, federation_of(wanted), 240)
    batches = -(-max(1, cases // 2) // warm.train.batch)
    assert 180 <= warm.rounds * warm.train.epochs * batches <= 300
    assert warm.method.name == "fedavg"


@pytest.fixture
def drawing(monkeypatch):
    """Let the models of an audit draw the masks that they are given, and be sure of them."""

    def set_masks(masks, trusted=None):
        good = None if trusted is None else Predicted(trusted, trusted)
        monkeypatch.setattr(sources, "cross_predict", lambda *_: (Predicted(masks, masks), good))

    return set_masks


def test_a_site_that_misses_objects_is_named_everywhere(drawing, tmp_path):
    wanted = recipe.load("demo", ["data.sites=4", "data.cases=12", "data.size=64", "noise=none"])
    federation = federation_of(wanted)
    clean, masks = federation.train.masks, np.array(federation.train.masks)
    masks[federation.sites["site-02"][:6]] = 0
    drawing(clean)
    audit, _, _ = from_federation(wanted, federation.with_masks(masks), Silent())
    flagged = [(one.site, one.kind) for one in audit.objects if one.is_flagged]
    assert flagged == [("site-02", "missing"), ("site-02", "empty")]
    said = "site-02 leaves 50 % (25 to 75 %) of its cases empty where the model sees an object"
    page = page_of(audit)
    assert said in text_of(audit)
    assert said in html.unescape(page)
    assert len(write_audit(tmp_path, audit, {}, page)) == 2
    lines = {one["site"]: one for one in csv.DictReader((tmp_path / "audit.csv").open())}
    assert [lines[site]["empty"] for site in ("site-01", "site-02")] == ["0.0", "0.5"]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_offsets_follow_the_annotators_if_the_model_is_right(drawing, is_trusted):
    wanted = recipe.load("demo", ["data.sites=12", "data.cases=10", "data.size=64"])
    federation = federation_of(wanted)
    good = federation.test if is_trusted else None
    drawing(federation.clean_masks, None if good is None else good.masks)
    audit, _, _ = from_federation(wanted, federation, Silent(), trusted=good)
    assert audit.is_absolute == is_trusted
    true = [audit.true[one.site] for one in audit.findings]
    assert spearmanr([one.relative for one in audit.findings], true).statistic > 0.95
    beyond = 2 + (0 if is_trusted else np.mean(true))
    large = {one.verdict for one in audit.findings if audit.true[one.site] > beyond}
    assert large == {"larger"}
    known = [one for one in audit.findings if not one.silent]
    assert len(known) >= 4
    assert f"answer is {'absolute' if is_trusted else 'relative'}" in text_of(audit)
    if is_trusted:
        wrong = [one.by_estimator["edges"] - audit.true[one.site] for one in known]
        assert abs(np.median(wrong)) < 1


def test_test_cases_are_audited_too_and_edges_alone_train_no_model(drawing, monkeypatch):
    changes = ("data.sites=3", "data.cases=7", "data.test=21", "data.size=64", "noise=none")
    wanted = recipe.load("demo", changes)
    made = federation_of(wanted)
    owners = [site for site in made.names() for _ in range(7)]
    federation = replace(made, test=replace(made.test, sites=tuple(owners)))
    drawing(np.concatenate([made.train.masks, made.test.masks]))
    _, rows, _ = from_federation(wanted, federation, Silent())
    assert [row.site for row in rows].count("site-02") == 14
    assert all(row.misfit == 0 for row in rows)
    monkeypatch.setattr(sources, "cross_predict", lambda *_: pytest.fail("a model was trained"))
    audit, rows, _ = from_federation(wanted, federation, Silent(), edges_only=True)
    assert audit.how == "the images alone, without a model"
    assert all(one.relative is not None for one in audit.findings)
    assert rows == []


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory):
    """Return a finished run of FedA3I on redrawn masks with three sites."""
    path = tmp_path_factory.mktemp("audited") / "run"
    wanted = [*TINY, *SMALL, "method=feda3i", "method.t1=1", "redraw.on=true"]
    run(recipe.load("demo", wanted), path)
    return path


@pytest.fixture
def server(surveyed, tmp_path):
    """Return a function that makes the run a server's, with a survey that says what we want."""

    def made(change=lambda text: text):
        path = tmp_path / "server"
        shutil.copytree(surveyed, path)
        lines = []
        for line in (path / "events.jsonl").read_text("utf-8").splitlines():
            event = json.loads(line)
            survey = event.get("survey")
            if event.get("offsets"):
                told = [[0.4, 0.4, 20, 40], [16.0, 0.8, 20, 40], [0.0, 0.4, 20, 40]]
                event["offsets"] = {s: [one] for s, one in zip(event["offsets"], told, strict=True)}
            if survey:
                assert [len(one) for one in survey["objects"].values()] == [6, 6, 6]
                counts = [40, 40, 38, 0, 20, 0], [40, 25, 24, 0, 20, 0], [40, 41, 40, 0, 20, 0]
                survey["objects"] = dict(zip(survey["sites"], counts, strict=True))
            lines.append(change(json.dumps(event)))
        (path / "events.jsonl").write_text("\n".join(lines) + "\n")
        manifest = json.loads((path / "manifest.json").read_text("utf-8"))
        manifest |= {"engine": "flower", "events_sha256": hash_file(path / "events.jsonl")}
        (path / "manifest.json").write_text(json.dumps(manifest))
        return path

    return made


def test_a_server_audits_its_sites_survey_without_pixels(done, feda3i, server):
    path = server()
    out = done("audit", path)
    expected = {"site-01": "smaller", "site-02": "larger", "site-03": "smaller"}
    assert verdicts(path / "audit") == expected
    assert "no case and no pixel left it" in out
    assert "site-02 misses 40 % (26 to 55 %) of the objects that the model sees" in out
    assert "the middle one of three sites 5 %" in out
    assert "site-03 misses" not in out
    assert not (path / "audit" / "stays-at-the-site").exists()
    out = done("audit", path)  # nothing is replaced
    assert str(path / "audit-2" / "audit.html") in out
    code, _, err = feda3i("audit", path, "--trusted", path)
    assert (code, "leave the options out" in err) == (2, True)
    # The side of a patch says nothing about the cases: their offsets are in pixels at 256.
    patched = recipe.load("hippocampus", ["data=synthetic-volumes"])
    assert max(patched.train.patch) < 256
    assert from_server._size(SimpleNamespace(recipe=lambda: patched)) == 256


@pytest.mark.parametrize(
    ("part", "other", "said"),
    [
        ("[[0.4, 0.4, 20, 40]]", "[[0.4, 0.4]]", "is damaged"),
        ("[[0.4", "[[[0.4]", "is damaged"),
        ('"offsets"', '"other"', "told nobody how they draw"),
    ],
)
def test_a_survey_that_is_damaged_or_lacks_offsets_says_so(feda3i, server, part, other, said):
    code, _, err = feda3i("audit", server(lambda text: text.replace(part, other)))
    assert (code, said in err) == (1, True)


def test_a_run_is_judged_by_models_that_have_not_seen_its_masks(
    done, surveyed, tmp_path, monkeypatch
):
    monkeypatch.setattr(sources, "warm_up_recipe", partial(cross_fit.warm_up_recipe, steps=2))
    out = done("audit", surveyed, "--out", tmp_path / "a", "--quiet")
    assert "each judges the other half" in out
    # What models of two steps see differs between processors; every site gets an answer.
    assert list(verdicts(tmp_path / "a")) == ["site-01", "site-02", "site-03"]
    lists = sorted((tmp_path / "a" / "stays-at-the-site").iterdir())
    assert [path.name for path in lists] == ["site-01", "site-02", "site-03"]
    out = done("audit", surveyed, "--model", surveyed, "--out", tmp_path / "b", "-q")
    assert "NOTE: on masks that a given model was trained on" in out


def test_a_folder_with_a_given_model_or_trusted_masks(done, surveyed, tmp_path, monkeypatch):
    federation = federation_of(recipe.load("demo", [*SMALL, "noise=none", "data.test=8"]))
    parts = {f"data/{site}": federation.site(site) for site in federation.names()}
    for place, cases in {**parts, "good": federation.test}.items():
        for case, image, mask in zip(cases.ids, cases.images, cases.masks, strict=True):
            save(tmp_path / place / "images" / f"{case}.png", image)
            save(tmp_path / place / "masks" / f"{case}.png", 255 * mask)
    data, quiet = tmp_path / "data", ("data.size=32", "--quiet", "--out")
    assert "a given model" in done("audit", data, "--model", surveyed, *quiet[1:], tmp_path / "a")
    assert set(verdicts(tmp_path / "a")) == set(federation.names())
    # Models that draw exactly as the trusted masks and the sites: nobody is off.
    drawn = lambda _, given, trusted, __: [
        Predicted(c.masks, c.masks) for c in (given.train, trusted)
    ]
    monkeypatch.setattr(sources, "cross_predict", drawn)
    out = done("audit", data, "--trusted", tmp_path / "good", *quiet, tmp_path / "b")
    assert "zero is where those were drawn" in out
    assert not {"larger", "smaller"} & set(verdicts(tmp_path / "b").values())


def test_wrong_wishes(feda3i, surveyed):
    for said, source, *options in (
        ("a run has its recipe", "run", "rounds=3"),
        ("contur", "run", "--estimator", "contur"),
        ("there is no folder", "nowhere"),
    ):
        code, _, err = feda3i("audit", surveyed.parent / source, *options)
        assert (code, said in err) == (2, True)


# -- volumes: read as a run reads them, or told what to type --------------------------------------


@pytest.fixture
def hospitals(tmp_path):
    pytest.importorskip("nibabel")
    for place, site in enumerate(("anna", "mercy", "zoo")):
        for k in range(4):
            mask = np.zeros((18, 26, 16), np.uint8)
            mask[5:12, 5 + k : 12 + k, 5:10] = 1
            mask[5:12, 12 + k : 18 + k, 5:10] = 2
            noise = np.random.default_rng(10 * place + k).normal(0, 5, mask.shape)
            image = np.rint(100 + 60 * (mask > 0) + noise).astype(np.int16)
            for kind, values in (("images", image), ("masks", mask)):
                save_volume(tmp_path / "in" / site / kind / f"c{k}.nii.gz", values)
    return tmp_path / "in"


AS_A_RUN = ("data.classes=['head','tail']", "train.patch=[16,32,16]", "model.width=2")


@pytest.mark.parametrize("by", ["edges", pytest.param("both", marks=pytest.mark.slow)])
def test_volumes_are_audited_as_a_run_reads_them(done, hospitals, tmp_path, monkeypatch, by):
    monkeypatch.setattr(sources, "warm_up_recipe", partial(cross_fit.warm_up_recipe, steps=2))
    options = ("--estimator", by, "--out", tmp_path / "a", "--quiet")
    assert "audit.html" in done("audit", hospitals, *AS_A_RUN, "engine.workers=1", *options)
    found = csv.DictReader((tmp_path / "a" / "audit.csv").open())
    told = {(one["site"], one["unit"]) for one in found}
    assert told == {(site, "mm") for site in ("anna", "mercy", "zoo")}


def test_classes_of_volumes_are_asked_for_and_sizes_taken_from_a_model(feda3i, hospitals, tmp_path):
    code, _, err = feda3i("audit", hospitals, "--out", tmp_path / "a", "--quiet")
    assert (code, "data.classes" in err, f"feda3i check {hospitals}" in err) == (1, True, True)
    shape = {"shape": (16, 32, 16), "patches": True, "spacing": (2.0, 1.0, 1.0)}
    form = Format(1, 2, **shape, volumes="whole", keeps_values=True)
    wanted = recipe.load("own-volumes", keys_of_format(form))
    options = wanted.data.options()
    assert wanted.train.patch == [16, 32, 16]
    assert "size" not in options
    assert options["spacing"] == [2.0, 1.0, 1.0]
    assert options["classes"] == ["class-1", "class-2"]
    assert recipe.load("own", keys_of_format(Format(3, 1, (64, 64)))).data.options()["size"] == 64
