"""``feda3i audit`` on a folder of volumes: read as a run reads it, or told what to type."""

import csv
from functools import partial

import numpy as np
import pytest

from feda3i.audit import sources
from feda3i.audit.cross_fit import warm_up_recipe
from feda3i.commands.audit import keys_of_format
from feda3i.core.format import Format
from feda3i.recipe import load

nibabel = pytest.importorskip("nibabel")

CLASSES = 'data.classes=["head","tail"]'


def write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values, np.diag([1.0, 1.0, 2.0, 1.0])), path)


@pytest.fixture
def hospitals(tmp_path):
    for place, site in enumerate(("anna", "mercy", "zoo")):
        for k in range(4):
            mask = np.zeros((18, 26, 16), np.uint8)
            mask[5:12, 5 + k : 12 + k, 5:10] = 1
            mask[5:12, 12 + k : 18 + k, 5:10] = 2
            noise = np.random.default_rng(10 * place + k).normal(0, 5, mask.shape)
            image = np.rint(100 + 60 * (mask > 0) + noise).astype(np.int16)
            write(tmp_path / "in" / site / "images" / f"c{k}.nii.gz", image)
            write(tmp_path / "in" / site / "masks" / f"c{k}.nii.gz", mask)
    return tmp_path / "in"


def test_a_folder_of_volumes_is_audited_as_a_run_reads_it(feda3i, hospitals, tmp_path):
    code, out, err = feda3i(
        *("audit", hospitals, CLASSES, "train.patch=[16,32,16]", "--estimator", "edges"),
        *("--out", tmp_path / "a", "--quiet"),
    )
    assert code == 0, err
    found = list(csv.DictReader((tmp_path / "a" / "audit.csv").open()))
    assert {(one["site"], one["unit"]) for one in found} == {
        (site, "mm") for site in ("anna", "mercy", "zoo")
    }
    assert "audit.html" in out


@pytest.mark.slow
def test_models_are_trained_for_volumes_too(feda3i, hospitals, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "warm_up_recipe", partial(warm_up_recipe, steps=2))
    code, _, err = feda3i(
        *("audit", hospitals, CLASSES, "train.patch=[16,32,16]", "model.width=2"),
        *("engine.workers=1", "--out", tmp_path / "a", "--quiet"),
    )
    assert code == 0, err


def test_classes_that_are_not_named_are_asked_for(feda3i, hospitals, tmp_path):
    code, _, err = feda3i("audit", hospitals, "--out", tmp_path / "a", "--quiet")
    assert code == 1
    assert "data.classes" in err
    assert f"feda3i check {hospitals}" in err


def test_volumes_are_read_as_a_model_takes_them():
    form = Format(1, 2, (16, 32, 16), patches=True, spacing=(2.0, 1.0, 1.0), volumes="whole",
                  keeps_values=True)  # fmt: skip
    recipe = load("own-volumes", keys_of_format(form))
    options = recipe.data.options()
    assert recipe.train.patch == [16, 32, 16]
    assert "size" not in options
    assert options["spacing"] == [2.0, 1.0, 1.0]
    assert options["classes"] == ["class-1", "class-2"]
    assert load("own", keys_of_format(Format(3, 1, (64, 64)))).data.options()["size"] == 64
