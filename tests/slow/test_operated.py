"""Real processes of other versions, and two runs at once."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import feda3i
from consortium import site_names
from deployment import Consortium, finish, rounds_of, small, wait_for_nodes, wait_for_round
from feda3i.flower.deploy_demo import recipe_of
from feda3i.recipe import validate

pytestmark = pytest.mark.slow


def other_version(folder, **changes):
    """Return a copy of the package in which some lines are different."""
    source = Path(feda3i.__file__).parent
    shutil.copytree(source, folder / "feda3i", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, after) in changes.items():
        path = folder / "feda3i" / name.replace("__", "/").replace("init", "__init__.py")
        path = path if path.suffix else path.with_suffix(".py")
        text = path.read_text("utf-8")
        assert before in text
        path.write_text(text.replace(before, after))
    return {"PYTHONPATH": str(folder)}


def test_other_versions_and_two_runs_at_once(tmp_path):
    recipe = small(recipe_of(4, "fedavg", rounds=3), min_sites=3, deadline=1200)
    sites = site_names(4)
    older = other_version(tmp_path / "older", init=('__version__ = "', '__version__ = "0.0.9-'))
    newer = other_version(tmp_path / "newer", flower__records=("PROTOCOL = 3", "PROTOCOL = 99"))
    with Consortium(tmp_path / "c", sites, patience=60) as consortium:
        consortium.start_server()
        for site, environment in zip(sites, (older, {}, {}, newer), strict=True):
            consortium.start_site(site, environment)
        wait_for_nodes(consortium, sites)
        first = consortium.start_run(recipe, "first")
        wait_for_round(consortium, first, "first", 1)
        second = consortium.start_run(validate({**recipe.to_dict(), "seed": 5}), "second")
        finish(consortium, first, "first")
        finish(consortium, second, "second")
        events = {name: rounds_of(consortium, name) for name in ("first", "second")}
    for rounds in events.values():
        assert [event["answered"] for event in rounds] == [3, 3, 3]
        for event in rounds:
            assert event["versions"] == {"site-01": f"0.0.9-{feda3i.__version__}"}
            assert "protocol 99" in event["refused"]["site-04"]
            assert "install feda3i" in event["refused"]["site-04"]
            assert set(event["site_loss"]) == {"site-01", "site-02", "site-03"}
    hashes = {name: (tmp_path / "c/runs" / name / "DONE").read_text("utf-8") for name in events}
    assert hashes["first"] != hashes["second"]
