"""``feda3i noise``: files in, files out, exit codes."""

import csv

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from feda3i import seeding
from feda3i.commands.noise import app
from feda3i.errors import DataError, RecipeError
from feda3i.noise import ContourEvolution
from feda3i.noise.pdn import MODELS
from noise_shapes import disc


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def masks(tmp_path):
    folder = tmp_path / "clean"
    folder.mkdir()
    for k in range(4):
        Image.fromarray(disc(12 + k, 64) * 255).save(folder / f"case{k}.png")
    return folder


def test_apply_writes_masks_and_a_table_and_names_what_it_leaves_out(masks, tmp_path):
    out = tmp_path / "noisy"
    done = run("apply", masks, out, "--mu", -3, "--sigma", 1, "--seed", 4)
    assert done.exit_code == 0, done.output
    assert "4 cases" in done.output
    table = rows_of(out / "noise.csv")
    assert [row["case"] for row in table] == [f"case{k}" for k in range(4)]
    for k, row in enumerate(table):
        noisy, draws = np.asarray(Image.open(out / f"case{k}.png")), (4, "noise", "", f"case{k}")
        expected = ContourEvolution(-3, 1)(disc(12 + k, 64), seeding.rng(*draws))
        np.testing.assert_array_equal(noisy, expected * 255)
        ratio = (noisy > 0).sum() / disc(12 + k, 64).sum()
        assert float(row["area_ratio"]) == pytest.approx(ratio, rel=1e-4)
        assert (row["mu"], row["sigma"], row["seed"]) == ("-3", "1", "4")
    (masks / "broken.png").write_bytes(b"not a picture")
    done = run("apply", masks, tmp_path / "out", "--mu", 1, "--sigma", 1)
    assert done.exit_code == 1
    assert "broken.png" in done.output
    assert len(list((tmp_path / "out").glob("*.png"))) == 4


def test_apply_on_volumes_relative_to_their_size(tmp_path):
    (tmp_path / "v").mkdir()
    ball = np.linalg.norm(np.mgrid[:32, :32, :32] - 16, axis=0) <= 9
    np.save(tmp_path / "v" / "ball.npy", ball)
    options = ("--mu", 24, "--sigma", 8, "--relative", "--noise", "levelset", "-q")
    done = run("apply", tmp_path / "v", tmp_path / "out", *options)
    assert (done.exit_code, done.output) == (0, "")
    assert rows_of(tmp_path / "out" / "noise.csv")[0]["mu"] == "3"
    noisy = np.load(tmp_path / "out" / "ball.npy")
    assert noisy.dtype == bool
    assert noisy.shape == ball.shape
    assert noisy.sum() > 1.5 * ball.sum()


def test_apply_refuses_wrong_use(masks, tmp_path):
    def fails(kind, text, *arguments):
        done = run("apply", *arguments)
        assert isinstance(done.exception, kind), done.output
        assert text in str(done.exception)

    ok = ("--mu", 1, "--sigma", 1)
    fails(RecipeError, "sigma", masks, tmp_path / "o", "--mu", 1, "--sigma", -1)
    fails(RecipeError, "key=value", masks, tmp_path / "o", *ok, "--option", "robust")
    fails(RecipeError, "not empty", masks, masks, *ok)
    fails(DataError, "there is no folder", masks / "x", tmp_path / "o", *ok)
    (tmp_path / "empty").mkdir()
    fails(DataError, "has no mask", tmp_path / "empty", tmp_path / "o", *ok)
    Image.fromarray(disc(9, 64)).save(masks / "case0.bmp")
    fails(DataError, "several files called 'case0'", masks, tmp_path / "p", *ok)
    assert run("apply", masks, tmp_path / "q").exit_code == 2


def test_gallery_draws_a_picture(tmp_path):
    done = run("gallery", "--out", tmp_path / "own.png")
    assert done.exit_code == 0, done.output
    drawn = np.asarray(Image.open(tmp_path / "own.png").convert("RGB")).astype(int)
    assert drawn.shape[1] > 1000
    red, blue = (drawn[..., on] - drawn[..., off] > 100 for on, off in ((0, 1), (2, 0)))
    assert red.sum() > 500
    assert blue.sum() > 500


def test_pdn_prints_a_row_per_model():
    done = run("pdn", "--draws", 10, "--radius", 12)
    assert done.exit_code == 0, done.output
    assert done.output.count("\n") == len(MODELS) + 2
    assert all(f"| {name} |" in done.output for name in MODELS)
