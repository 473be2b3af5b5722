"""What a site decides for itself, and what it refuses to do for a server."""

import json
import resource
import signal

import numpy as np
import pytest
import torch

from consortium import Trial, site_names, tiny, weights_of
from feda3i.engine.run import run
from feda3i.errors import RecipeError, RunError
from feda3i.files import write_png
from feda3i.flower import records
from feda3i.flower.client_app import app
from feda3i.flower.node import NodeSettings
from feda3i.flower.records import PROTOCOL, Header
from feda3i.recipe import validate
from feda3i.synthetic.federations import synthetic_skin
from in_process import InProcessGrid

SETTINGS = {"site": "site-01", "state-dir": "/somewhere/state", "allow-synthetic": True}


def settings(**changes):
    return NodeSettings.of({**SETTINGS, **changes})


def accepted(values, **site):
    """Return the recipe that a site makes of the server's."""
    text = values if isinstance(values, str | None) else json.dumps({**tiny().to_dict(), **values})
    return settings(**site).accept({"recipe": text})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"site": ""}, "site.toml: site: string should match pattern"),
        ({"site": "a/b"}, "found 'a/b'"),
        ({"state-dir": "state"}, "absolute"),
        ({"data_dir": "/x"}, "no option 'data_dir', did you mean 'data-dir'"),
        ({"max-epochs": "many"}, "max-epochs: input should be a valid number"),
        ({"allow-synthetic": "yes"}, "allow-synthetic: input should be a valid boolean"),
    ],
)
def test_wrong_settings_are_named(changes, text):
    with pytest.raises(RecipeError, match=text):
        settings(**changes)


@pytest.mark.parametrize("run", ["", "..", "../../etc", "a" * 15, "A" * 32, "0" * 65])
def test_a_run_cannot_choose_a_path(run):
    with pytest.raises(RecipeError, match="identifier"):
        settings().run_folder(run)


def test_the_site_chooses_its_device_whatever_the_recipe_says():
    assert accepted({"engine": {"device": "cuda:3"}}, device="cpu").engine.device == "cpu"


REFUSED = [
    *({"method": {"name": name}} for name in ("/tmp/evil.py:Method", "os:system")),
    *({"data": {"name": name}} for name in ("file.py:data", "/etc")),
    {"model": {"name": "package.module:factory"}},
    {"noise": {"name": "evil.py:Noise"}},
]
AGREED = [
    *(({}, changes, "sites run what is installed") for changes in REFUSED),
    ({}, {"data": {"name": "folder", "path": "/server/path"}}, "names no path"),
    ({"methods": "fedavg,feda3i"}, {"method": {"name": "fedmix"}}, "agreed to fedavg, feda3i"),
    ({"methods": "fedavg"}, {"redraw": {"on": True}}, "found 'redraw'"),
    ({"models": "monai-unet"}, {}, "model: this site agreed to monai-unet"),
    ({}, {"train": {"epochs": 51}}, "at most 50"),
    ({"max-epochs": 2}, {"train": {"epochs": 3}}, "at most 2"),
]


@pytest.mark.parametrize(("site", "changes", "text"), AGREED, ids=str)
def test_a_recipe_beyond_what_the_site_agreed_to_is_refused(site, changes, text):
    with pytest.raises(RecipeError, match=text) as caught:
        accepted(changes, **site)
    assert "\n" not in str(caught.value)


def test_an_order_beyond_the_memory_of_the_site_is_refused():
    before, limited = resource.getrlimit(resource.RLIMIT_DATA), settings(**{"max-memory": 64})
    for allocate in (lambda: np.empty(2**40, np.uint8), lambda: torch.empty(2**40)):
        with pytest.raises(RunError, match=r"max-memory \(64 GB\)"), limited.limits():
            allocate()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_an_order_beyond_the_seconds_of_the_site_is_refused():
    def library():
        try:
            signal.raise_signal(signal.SIGALRM)  # as the timer does
        except Exception:
            return

    def answer():
        with settings().limits():
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
            library()

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(RunError, match=r"max-seconds \(3600\)"):
        answer()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize("text", ["", "{", "[]", "7", None, "[" * 100_000, "x" * 2**19])
def test_a_recipe_that_is_none_is_refused(text):
    with pytest.raises(RecipeError):
        accepted(text)


def ask(config, recipe, protocol=PROTOCOL):
    """Return why a node with this configuration refuses to say hello."""
    grid = InProcessGrid(app, {"site-01": config}, {"recipe": json.dumps(recipe)})
    content = records.write(Header("hello", protocol=protocol), {})
    [reply] = grid.send_and_receive([grid.message(content, 100, "query", ttl=60.0)])
    header, body = records.read_header(reply.content)
    assert header.kind == "refusal"
    return body["reason"]


def test_a_refusal_has_a_reason_without_a_path_or_a_file(tmp_path):
    for part in ("images", "masks"):
        (tmp_path / "ward-7" / part).mkdir(parents=True)
        (tmp_path / "ward-7" / part / "mueller_anna.png").write_bytes(b"no picture")
    config = {"site": "site-01", "state-dir": str(tmp_path), "data-dir": str(tmp_path / "ward-7")}
    values = {**tiny().to_dict(), "data": {"name": "folder", "size": 32}}
    for change, reason in (
        ({}, "the site's data cannot be used"),
        ({"noise": {"name": "contour"}}, "noise is for simulations"),
        ({"method": {"name": "clean"}}, "reference row"),
    ):
        told = ask(config, {**values, **change})
        assert reason in told
        assert "mueller" not in told
        assert "ward-7" not in told
    assert "protocol 99" in ask(config, values, protocol=99)


def test_sites_with_their_own_folders_equal_a_local_run(tmp_path):
    """Each node reads its own folder; the local engine reads all of them as one federation."""
    made = synthetic_skin(sites=2, cases=4, test=2, size=32)
    for name in made.names():
        write_cases(tmp_path / "all" / "train" / name, made.site(name))
    write_cases(tmp_path / "all" / "test" / "test", made.test)
    values = {**tiny(rounds=2).to_dict(), "data": {"name": "folder", "size": 32}}
    recipe = validate(values)
    data = {**values["data"], "path": str(tmp_path / "all"), "partition": "by-folder"}
    local = run(validate({**values, "data": data}), tmp_path / "local")

    trial = Trial(tmp_path, recipe, site_names(2))
    for name in trial.names:
        folder = tmp_path / "all" / "train" / name
        trial.grid.node_config[name] |= {"data-dir": str(folder)}
    network = trial.play(test=tmp_path / "all" / "test" / "test")
    ours, theirs = weights_of(network.path), weights_of(local.path)
    assert list(ours) == list(theirs)
    assert all(np.array_equal(value, theirs[name]) for name, value in ours.items())
    assert network.scores == pytest.approx(local.scores, abs=0, rel=0, nan_ok=True)
    # The server knows neither the paths nor the names of the cases of any site.
    known = "".join(p.read_text("utf-8") for p in network.path.glob("*.json*"))
    assert str(tmp_path / "all" / "train") not in known
    assert all(case not in known for case in made.train.ids)


def test_without_test_cases_sites_score_their_own(tmp_path):
    made, site = synthetic_skin(sites=1, cases=5, test=3, size=32), tmp_path / "site"
    write_cases(site / "train", made.train)
    write_cases(site / "test", made.test)
    recipe = validate({**tiny(rounds=1).to_dict(), "data": {"name": "folder", "size": 32}})
    trial = Trial(tmp_path, recipe, ["site-01"])
    trial.grid.node_config["site-01"] |= {"data-dir": str(site)}
    result = trial.play()
    test, train = trial.events("score")
    assert [(row["case"], row["cases"]) for row in test["rows"]] == [("site-01", 3)]
    assert [(row["case"], row["cases"]) for row in train["rows"]] == [("site-01", 5)]
    assert 0 <= result.scores["dice"] <= 1


def write_cases(folder, cases):
    for name, image, mask in zip(cases.ids, cases.images, cases.masks, strict=True):
        write_png(folder / "images" / f"{name}.png", image)
        write_png(folder / "masks" / f"{name}.png", mask * 255)
