"""``feda3i redraw``: same layout and formats out, the given tree untouched, all of it undone."""

import csv
import stat

import numpy as np
import pytest
from PIL import Image

from data_files import save, save_volume, tree_bytes
from feda3i.metrics import dice
from feda3i.quality import shift_mask

DRAWN = {"left": 5.0, "right": -4.0, "middle": 0.0}
SIDE = 96
AFFINE = [[-0.8, 0, 0, 5.0], [0, -0.8, 0, -3.0], [0, 0, 2.0, 7.0], [0, 0, 0, 1]]
ENDINGS = {"bytes": ".png", "tif": ".tif"}


def disc(seed, shift=0.0, side=SIDE):
    """Return a picture of a disc, and its mask drawn some pixels off."""
    draw = np.random.default_rng(seed)
    centre, radius = side / 2 + draw.uniform(-4, 4, 2), draw.uniform(20, 26)
    away = np.hypot(*(np.indices((side, side)) - centre.reshape(2, 1, 1)))
    image = np.where(away < radius, 70, 150) + draw.normal(0, 8, away.shape)
    return np.clip(image, 0, 255).astype(np.uint8), away < radius + shift, away < radius


def make_tree(folder, drawn, kind="bytes"):
    """Write sites of nine cases, masks as 0 and 255, 0 and 1, a palette, one bit or TIFF."""
    for number, (site, shift) in enumerate(drawn.items()):
        (folder / site / "masks").mkdir(parents=True)
        for k in range(9):
            image, mask, _ = disc(100 * number + k, shift)
            save(folder / site / "images" / f"c{k}.png", image)
            picture = Image.fromarray(mask.astype(np.uint8) * (255 if kind in ENDINGS else 1))
            if kind == "palette":
                picture = picture.convert("P")
                picture.putpalette([0, 0, 0, 200, 30, 30])
            elif kind == "bits":
                picture = Image.fromarray(mask)
            picture.save(folder / site / "masks" / f"c{k}{ENDINGS.get(kind, '.png')}")
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("plain") / "sites", DRAWN)


def values(path):
    with Image.open(path) as picture:
        return np.array(picture), picture.mode, picture.getpalette(), picture.format


@pytest.mark.parametrize("kind", ["bytes", "ones", "palette", "bits", "tif"])
def test_a_tree_of_sites_is_redrawn_and_undone(done, feda3i, tmp_path, kind):
    tree, target = make_tree(tmp_path / "sites", DRAWN, kind), tmp_path / "out"
    before = tree_bytes(tree)
    out = done("redraw", tree, target)
    assert tree_bytes(tree) == before
    made = tree_bytes(target)
    assert set(made) == set(before) | {"changes.csv", "redrawn.html"}
    assert "left: moves its contours by -" in out
    assert "right: moves its contours by +" in out
    for number, site in enumerate(DRAWN):
        scores = []
        for k in range(9):
            image = f"{site}/images/c{k}.png"
            assert made[image] == before[image]
            (name,) = [n for n in before if n.startswith(f"{site}/masks/c{k}.")]
            given, new = values(tree / name), values(target / name)
            assert given[1:] == new[1:]
            assert set(np.unique(new[0])) == set(np.unique(given[0]))
            truth = disc(100 * number + k)[2]
            scores.append([dice(given[0] > 0, truth), dice(new[0] > 0, truth)])
        if DRAWN[site]:
            was, now = np.mean(scores, axis=0)
            assert now > 0.95 > was
    rows = list(csv.DictReader((target / "changes.csv").read_text().splitlines()))
    assert {row["site"] for row in rows} >= {"left", "right"}
    first = next(row for row in rows if row["site"] == "left")
    assert float(first["px"]) < 0
    assert int(first["area_after"]) < int(first["area_before"])
    for name in ("changes.csv", "redrawn.html"):
        assert stat.S_IMODE((target / name).stat().st_mode) == 0o600
    assert b"Before and after" in made["redrawn.html"]
    done("redraw", tree, target, "--undo")
    after = tree_bytes(target)
    assert {name: after[name] for name in before} == before
    assert "undone-changes.csv" in after
    assert feda3i("redraw", tree, target, "--undo")[0] == 1


def test_a_dry_run_writes_nothing_and_careful_sites_stay(done, plain, tmp_path):
    for trusted in (("--trusted-site", "middle"), ("--trusted", plain / "middle")):
        out = done("redraw", plain, tmp_path / "a", "--dry-run", *trusted)
        assert "b0 of the trusted masks" in out
        assert "left: moves its contours by -" in out
        assert "middle: stays" in out or trusted[0] == "--trusted"
    assert not (tmp_path / "a").exists()
    folder = make_tree(tmp_path / "sites", {"s0": 0.0, "s1": 0.0})
    assert "0 masks redrawn" in done("redraw", folder, tmp_path / "out")
    made, given = tree_bytes(tmp_path / "out"), tree_bytes(folder)
    assert {name: made[name] for name in given} == given


def test_an_edited_mask_stops_an_undo(done, feda3i, plain, tmp_path):
    target = tmp_path / "out"
    done("redraw", plain, target)
    mask = target / "left" / "masks" / "c0.png"
    Image.fromarray(np.eye(SIDE, dtype=np.uint8) * 255).save(mask)
    before = tree_bytes(target)
    code, _, err = feda3i("redraw", plain, target, "--undo")
    assert (code, "was changed since it was redrawn" in err) == (1, True)
    assert tree_bytes(target) == before


def test_volumes_of_nnunet_keep_names_and_geometry(done, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    folder, size = tmp_path / "site", (2.5, 1, 1)
    for number, shift in enumerate((3.0, -3.0)):
        root = folder / f"hospital-{number}" / "Dataset001_Ball"
        for k in range(9):
            draw = np.random.default_rng(10 * number + k)
            centre = np.array([17.0, 20.0, 20.0]) + draw.uniform(-1, 1, 3)
            grid = np.moveaxis(np.indices((14, 40, 40)), 0, -1) * size
            away = np.linalg.norm(grid - centre, axis=-1)
            image = np.where(away < 10, 900, 300) + draw.normal(0, 40, away.shape)
            drawn = shift_mask(away < 10, shift, size).astype(np.uint8)
            pair = {f"imagesTr/ball_{k:03}_0000": image.astype(np.float32)}
            for name, array in {**pair, f"labelsTr/ball_{k:03}": drawn}.items():
                save_volume(root / f"{name}.nii.gz", array.T, AFFINE)
    assert "18 masks redrawn" in done("redraw", folder, tmp_path / "out")
    name = "hospital-0/Dataset001_Ball/labelsTr/ball_000.nii.gz"
    before, after = (nibabel.load(root / name) for root in (folder, tmp_path / "out"))
    np.testing.assert_allclose(after.affine, before.affine)
    volumes = [np.asarray(one.dataobj).sum() for one in (before, after)]
    assert 0.4 * volumes[0] < volumes[1] < 0.8 * volumes[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trusted-site", "lefty"], "expected one of left, middle, right, found 'lefty'"),
        (["--trusted", "x", "--trusted-site", "left"], "exclude each other"),
        (["--undo"], "has no changes.csv"),
    ],
)
def test_wrong_wishes(feda3i, plain, tmp_path, options, said):
    wishes = [(tmp_path / "out", *options), (plain / "new",), (plain,)]
    for wish, words in zip(wishes, (said, "choose a", "choose a"), strict=True):
        code, _, err = feda3i("redraw", plain, *wish)
        assert (code > 0, words in err) == (True, True)
