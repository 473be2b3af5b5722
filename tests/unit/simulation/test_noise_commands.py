"""``feda3i noise``: files in, files out, exit codes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from feda3i import seeding
from feda3i.commands.noise import app
from feda3i.errors import DataError, RecipeError
from feda3i.noise import ContourEvolution
from noise_shapes import disc


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path))


@pytest.fixture
def masks(tmp_path: Path) -> Path:
    folder = tmp_path / "clean"
    folder.mkdir()
    for k in range(4):
        Image.fromarray(disc(12 + k, 64) * 255).save(folder / f"case{k}.png")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for part, count in (("train", 9), ("test", 2)):
        for kind in ("images", "masks"):
            (tmp_path / "data" / part / kind).mkdir(parents=True)
        for k in range(count):
            image = rng.integers(0, 255, (64, 64, 3), np.uint8)
            Image.fromarray(image).save(tmp_path / "data" / part / "images" / f"{part}{k}.png")
            mask = disc(14 + k, 64) * 255
            Image.fromarray(mask).save(tmp_path / "data" / part / "masks" / f"{part}{k}.png")
    return tmp_path / "data"


def test_apply_writes_masks_and_a_table(masks: Path, tmp_path: Path) -> None:
    out = tmp_path / "noisy"
    done = run("apply", masks, out, "--mu", -3, "--sigma", 1, "--seed", 4)
    assert done.exit_code == 0, done.output
    assert "4 cases" in done.output
    table = rows_of(out / "noise.csv")
    assert [row["case"] for row in table] == [f"case{k}" for k in range(4)]
    for k, row in enumerate(table):
        noisy = pixels(out / f"case{k}.png")
        expected = ContourEvolution(-3, 1)(
            disc(12 + k, 64), seeding.rng(4, "noise", "", f"case{k}")
        )
        np.testing.assert_array_equal(noisy, expected * 255)
        ratio = (noisy > 0).sum() / disc(12 + k, 64).sum()
        assert float(row["area_ratio"]) == pytest.approx(ratio, rel=1e-4)
        assert (row["mu"], row["sigma"], row["seed"]) == ("-3", "1", "4")


def test_apply_relative_scales_with_the_mask(masks: Path, tmp_path: Path) -> None:
    options = ("--mu", 12, "--sigma", 4, "--relative", "--option", "mode=faithful", "-q")
    assert run("apply", masks, tmp_path / "out", *options).output == ""
    assert rows_of(tmp_path / "out" / "noise.csv")[0]["mu"] == "3"


def test_apply_names_what_it_leaves_out(masks: Path, tmp_path: Path) -> None:
    (masks / "broken.png").write_bytes(b"not a picture")
    done = run("apply", masks, tmp_path / "out", "--mu", 1, "--sigma", 1)
    assert done.exit_code == 1
    assert "broken.png" in done.output
    assert len(list((tmp_path / "out").glob("*.png"))) == 4


def test_apply_on_volumes(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    ball = np.linalg.norm(np.mgrid[:32, :32, :32] - 16, axis=0) <= 9
    np.save(tmp_path / "v" / "ball.npy", ball)
    options = ("--mu", 3, "--sigma", 1, "--noise", "levelset")
    assert run("apply", tmp_path / "v", tmp_path / "out", *options).exit_code == 0
    noisy = np.load(tmp_path / "out" / "ball.npy")
    assert noisy.dtype == bool
    assert noisy.shape == ball.shape
    assert noisy.sum() > 1.5 * ball.sum()


def test_apply_refuses_wrong_use(masks: Path, tmp_path: Path) -> None:
    def fails(kind: type[Exception], text: str, *arguments: object) -> None:
        done = run("apply", *arguments)
        assert isinstance(done.exception, kind), done.output
        assert text in str(done.exception)

    ok = ("--mu", 1, "--sigma", 1)
    fails(RecipeError, "sigma", masks, tmp_path / "o", "--mu", 1, "--sigma", -1)
    fails(RecipeError, "mu", masks, tmp_path / "o", "--mu", "nan", "--sigma", 1)
    fails(RecipeError, "key=value", masks, tmp_path / "o", *ok, "--option", "robust")
    fails(RecipeError, "another folder", masks, masks, *ok)
    fails(DataError, "there is no folder", masks / "x", tmp_path / "o", *ok)
    (tmp_path / "empty").mkdir()
    fails(DataError, "has no mask", tmp_path / "empty", tmp_path / "o", *ok)
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "note.txt").write_text("mine")
    fails(RecipeError, "not empty", masks, tmp_path / "o", *ok)
    Image.fromarray(disc(9, 64)).save(masks / "case0.bmp")
    fails(DataError, "several files called 'case0'", masks, tmp_path / "p", *ok)
    assert run("apply", masks, tmp_path / "q").exit_code == 2


def test_federate_makes_one_folder_per_site(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "sites"
    options = ("--setting", "skin-ns", "--sites", 3, "--seed", 1)
    done = run("federate", data, out, *options)
    assert done.exit_code == 0, done.output
    annotators = rows_of(out / "annotators.csv")
    assert [row["site"] for row in annotators] == ["site-01", "site-02", "site-03"]
    assert [row["cases"] for row in annotators] == ["3", "3", "3"]
    assert sum(float(row["mu"]) < 0 for row in annotators) == 2
    cases = rows_of(out / "cases.csv")
    assert len(cases) == 9
    mu = {row["site"]: float(row["mu"]) for row in annotators}
    for row in cases:
        assert float(row["mu"]) == pytest.approx(mu[row["site"]] / 4, rel=1e-4)
        place = out / row["site"] / "train"
        clean, noisy = (pixels(place / kind / f"{row['case']}.png") for kind in ("clean", "masks"))
        assert float(row["area_ratio"]) == pytest.approx(noisy.sum() / clean.sum(), rel=1e-4)
        original = next((data / "train" / "masks").glob(f"{row['case'].split('-')[-1]}*"))
        np.testing.assert_array_equal(clean, pixels(original))
        assert pixels(place / "images" / f"{row['case']}.png").shape == (64, 64, 3)
    assert len(list((out / "test" / "masks").iterdir())) == 2
    assert not list(tmp_path.glob(".part*"))
    again = run("federate", data, out, *options)
    assert isinstance(again.exception, RecipeError)
    assert "exists" in str(again.exception)


def test_federate_can_be_read_as_a_federation(data: Path, tmp_path: Path) -> None:
    from feda3i.data.folder import folder

    options = ("--setting", "breast-ne", "--sites", 3, "-q")
    run("federate", data, tmp_path / "s", *options)
    found = folder(tmp_path / "s", partition="by-folder", cache=False)
    assert {site: len(part) for site, part in found.sites.items()} == dict.fromkeys(
        ("site-01", "site-02", "site-03"), 3
    )
    assert found.test.ids == ("test0", "test1")


def test_federate_sets_clean_test_cases_aside(data: Path, tmp_path: Path) -> None:
    options = ("--setting", "breast-ne", "--sites", 2, "-q")
    run("federate", data / "train", tmp_path / "s", *options, "--test-share", 0.3)
    tests = sorted((tmp_path / "s" / "test" / "masks").iterdir())
    assert len(tests) == 3
    for mask in tests:
        np.testing.assert_array_equal(pixels(mask), pixels(data / "train" / "masks" / mask.name))
    assert len(rows_of(tmp_path / "s" / "cases.csv")) == 6
    run("federate", data / "train", tmp_path / "all", *options, "--test-share", 0)
    assert len(rows_of(tmp_path / "all" / "cases.csv")) == 9
    assert not (tmp_path / "all" / "test").exists()


def test_federate_leaves_nothing_behind_when_it_fails(data: Path, tmp_path: Path) -> None:
    (data / "train" / "masks" / "train3.png").write_bytes(b"broken")
    done = run("federate", data, tmp_path / "s", "--setting", "skin-ns", "--sites", 2)
    assert isinstance(done.exception, DataError)
    assert "train3" in str(done.exception)
    assert not (tmp_path / "s").exists()
    assert not list(tmp_path.glob(".part*"))
    too_many = run("federate", data, tmp_path / "s", "--setting", "skin-ns", "--sites", 99)
    assert isinstance(too_many.exception, DataError)


def test_gallery_draws_a_picture(tmp_path: Path, masks: Path) -> None:
    image = tmp_path / "image.png"
    Image.fromarray(np.full((64, 64), 90, np.uint8)).save(image)
    files = ("--image", image, "--mask", masks / "case3.png")
    done = run("gallery", "--out", tmp_path / "own.png", *files)
    assert done.exit_code == 0, done.output
    drawn = np.asarray(Image.open(tmp_path / "own.png").convert("RGB")).astype(int)
    assert drawn.shape[1] > 1000
    red = (drawn[..., 0] > 180) & (drawn[..., 1] < 80)
    blue = (drawn[..., 2] > 180) & (drawn[..., 0] < 80)
    assert red.sum() > 500
    assert blue.sum() > 500
    unpaired = run("gallery", "--out", tmp_path / "x.png", "--image", image)
    assert isinstance(unpaired.exception, RecipeError)


def test_pdn_prints_a_row_per_model(tmp_path: Path) -> None:
    from feda3i.noise.pdn_table import MODELS

    done = run("pdn", "--draws", 10, "--radius", 12, "--csv", tmp_path / "t.csv", "-q")
    assert done.exit_code == 0, done.output
    assert done.output.count("\n") == len(MODELS) + 2
    assert [row["model"] for row in rows_of(tmp_path / "t.csv")] == list(MODELS)
