"""``feda3i run own``: real sites as they are, and what other recipes say when they meet them."""

import json

import numpy as np
import pytest

from data_files import plain_tree, save_pair
from feda3i import recipe
from feda3i.commands.preview import changes_of, division_of
from feda3i.data.folder import folder
from feda3i.engine.events import read_events
from feda3i.errors import DataError
from feda3i.reading import listing
from feda3i.simulation.federation import federation_of

SHORT = ("rounds=1", "train.epochs=1", "data.size=32", "model.width=4", "engine.workers=1")


@pytest.fixture
def clinics(tmp_path):
    """Return a tree SITE/{images,masks} of three sites of 5 to 15 cases."""
    for number, site in enumerate(("Anna", "Mercy", "Zoo")):
        plain_tree(tmp_path / "clinics" / site, 5 * (number + 1), 100 * number)
    return tmp_path / "clinics"


def test_own_takes_sites_masks_and_cases_as_they_are_and_redraws_masks(clinics, tmp_path, feda3i):
    made = recipe.load("own", [f"data={clinics}", "data.size=40"])
    assert made.noise.name == "none"
    assert made.method.name == "redraw"
    federation = federation_of(made)
    assert federation.names() == ["Anna", "Mercy", "Zoo"]
    assert [len(federation.site(name)) for name in federation.names()] == [4, 8, 12]
    assert [federation.test.sites.count(name) for name in federation.names()] == [1, 2, 3]
    assert federation.clean_masks is None
    assert changes_of(made, division_of(made)) == []
    code, _, err = feda3i("run", "own", f"data={clinics}", *SHORT, "--out", tmp_path / "run")
    assert (code, "masks redrawn: " in err) == (0, True)
    assert "Masks redrawn" in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_own_says_what_it_needs(tmp_path, feda3i):
    plain_tree(tmp_path, 6)
    for more, advice in ([], "data=FOLDER"), ([f"data={tmp_path}"], "data.partition=iid"):
        code, _, err = feda3i("run", "own", *more, "--out", tmp_path / "run")
        assert (code, advice in err) == (1, True)


def test_a_recipe_that_changes_real_sites_says_so_first(clinics, tmp_path, feda3i):
    arguments = ("run", "skin_ns-small", f"data={clinics}", "data.sites=4", "data.cases=2", *SHORT)
    code, _, err = feda3i(*arguments, "method=fedavg", "--out", tmp_path / "run")
    assert code == 0
    first, second = err.splitlines()[:2]
    assert "3 real sites (Anna, Mercy, Zoo)" in first
    assert "makes 4 simulated sites of them (iid)" in first
    assert "simulated noise" in first
    assert first.endswith(f"feda3i run own data={clinics}")
    assert second == "note: cases that are neither trained on nor scored: 16 (cases)"
    notes = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))["data"]["notes"]
    assert notes["left_out"] == {"cases": 16}


def test_quiet_warns_and_the_folder_is_listed_once(clinics, tmp_path, feda3i, monkeypatch):
    listed, original = [], listing.list_files
    noted = lambda root, *more: listed.append(root) or original(root, *more)
    monkeypatch.setattr(listing, "list_files", noted)
    arguments = (f"data={clinics}", "noise=contour", "noise.setting=skin-ns", "method=fedavg")
    code, _, err = feda3i("run", "own", *arguments, *SHORT, "-q", "--out", tmp_path / "run")
    assert code == 0
    assert listed == [clinics]
    assert err.count("\n") == 1
    assert "draws simulated noise over their masks" in err


def test_sites_of_a_source_keep_its_name(clinics):
    same = folder(clinics, size=32, sites=3, partition="by-source", cache=False)
    assert same.names() == ["Anna", "Mercy", "Zoo"]
    assert set(same.test.sites) == {"Anna", "Mercy", "Zoo"}
    more = folder(clinics, size=32, sites=6, partition="by-source", cache=False)
    assert more.names() == ["Anna", "Mercy-01", "Mercy-02", "Zoo-01", "Zoo-02", "Zoo-03"]
    assert more.test.sites == ()
    assert all(name.startswith(more.site(name).sources[0]) for name in more.names())
    for _ in range(2):  # the size of pixels is kept: the cache is built, then read
        np.testing.assert_allclose(folder(clinics, size=20).test.zoom, [[2.0, 2.4]] * 6)


def test_validation_folders_test_where_nothing_else_does(tmp_path):
    for site, splits in (("a", ("train", "val")), ("b", ("train", "validation", "test"))):
        for number, split in enumerate(splits):
            plain_tree(tmp_path / site / split, 3, 10 * number)
    made = folder(tmp_path, cache=False)
    assert (len(made.train), len(made.test)) == (6, 6)
    own = recipe.load("own", [f"data={tmp_path}", "data.test=4"])
    assert changes_of(own, division_of(own))[0].endswith("2 (test), 3 (validation)")


def test_a_site_too_small_to_train_and_test_does_not_vanish(tmp_path):
    plain_tree(tmp_path / "large", 8)
    save_pair(tmp_path / "small", "only", 50)
    with pytest.raises(DataError, match="site 'small' has no training case"):
        folder(tmp_path, cache=False)
    federation = folder(tmp_path, cache=False, unused="allow")
    assert federation.names() == ["large"]
    assert "small" in federation.test.sites


def test_hospitals_keep_their_names_in_any_script(tmp_path, feda3i):
    for number, site in enumerate(("Charité", "St. Mary's (East)", "病院")):
        plain_tree(tmp_path / "in" / site, 5, 100 * number)
    # ELR keeps memory at its sites, in files of their own.
    arguments = ("run", "own", f"data={tmp_path / 'in'}", *SHORT, "method=elr")
    code, _, err = feda3i(*arguments, "--out", tmp_path / "run")
    assert code == 0, err
    assert "3 sites, training cases: Charité 4, St. Mary's (East) 4, 病院 4; 3 test cases" in err
    log = tmp_path / "run" / "events.jsonl"
    rounds, scored = (next(read_events(log, kind)) for kind in ("round", "score"))
    names = {"Charité", "St. Mary's (East)", "病院"}
    assert set(rounds["site_loss"]) == {row["site"] for row in scored["rows"]} == names
