"""The manifest of what leaves a site: made from the wire, for recipes and for runs."""

import pytest

from feda3i.core.format import Format
from feda3i.engine.job import Job
from feda3i.methods import REGISTRY
from feda3i.recipe import validate
from feda3i.report.disclosure import disclose
from feda3i.report.disclosure_page import disclosure_page, markdown
from pages import read


def job(method="fedavg", **sections):
    values = {"method": {"name": method}, "model": {"name": "unet", "width": 2}, **sections}
    return Job(validate(values), Format(3, 2, (32, 32)))


def item(found, name):
    return next((one for one in found.up if one.name == name), None)


@pytest.mark.parametrize("method", REGISTRY.names())
def test_everything_that_a_method_declares_is_named(method):
    one = job(method)
    text = markdown(disclose(one, "trial"))
    wire = one.method.wire
    for name in (*wire.fit, *wire.survey, *wire.settings, *wire.networks):
        assert name in text
    assert ("survey" in [i.name for i in disclose(one, "x").up]) == bool(wire.survey)


def test_masks_noise_and_statistics_change_what_is_said():
    plain = disclose(job("feda3i"), "x")
    size = job().layout.size
    assert item(plain, "training").size > 4 * size
    assert "network of each site" in item(plain, "training").seen
    assert item(plain, "keys") is None
    assert any("secure.on" in one for one in plain.limits)

    secure = disclose(job("feda3i", secure={"on": True}), "x")
    assert item(secure, "training").size > 8 * size
    assert "only the weighted sum" in item(secure, "training").seen
    assert item(secure, "unmask") is not None
    assert "weights of all sites" in markdown(secure)
    assert any("identity.pub" in one for one in secure.limits)

    private = disclose(job("feda3i", privacy={"on": True}), "x")
    assert "clipped and noised" in item(private, "training").holds[0]
    assert not any(one.startswith("loss") for one in item(private, "training").holds)
    assert item(private, "scores") is None
    assert "inner_per_contour" not in item(private, "survey").holds[0]  # unused, so not sent

    measured = disclose(job(model={"name": "unet", "width": 2, "statistics": "exact"}), "x")
    assert "mean and variance by channel" in item(measured, "statistics").holds[0]


def test_the_page_says_the_same_and_escapes_names():
    from dataclasses import replace

    found = replace(disclose(job(), "<b>run</b>"), counted={"<i>|site": 1_200_000})
    page = disclosure_page(found)
    assert "<b>run" not in page
    assert "1.2 MB" in page
    words = read(page)
    assert words
    for one in (*found.stays, *found.limits):
        assert one.replace("'", "&#x27;") in page
    assert "\\|site" in markdown(found)


def test_the_command_prints_and_writes(feda3i, tmp_path):
    recipe = tmp_path / "consortium.toml"
    recipe.write_text(
        'rounds = 3\n[data]\nname = "folder"\nsize = 32\nchannels = 3\n[model]\nwidth = 2\n'
    )
    code, out, _ = feda3i(
        "privacy", str(recipe), "secure.on=true", "--out", str(tmp_path / "p.html")
    )
    assert code == 0
    assert "masked integers" in out
    assert "What leaves a site" in (tmp_path / "p.html").read_text()
    code, _, err = feda3i("privacy", str(recipe), "data.channels=three")
    assert code != 0
    assert "data.size and data.channels" in err
