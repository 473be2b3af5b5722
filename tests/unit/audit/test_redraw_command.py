"""``feda3i redraw``: same layout and formats out, the given tree untouched, all of it undone."""

import csv
import stat

import numpy as np
import pytest
from PIL import Image

from data_files import tree_bytes
from feda3i.metrics import dice
from feda3i.quality import shift_mask

DRAWN = {"left": 5.0, "right": -4.0, "middle": 0.0}
SIDE = 96
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
        for name in ("images", "masks"):
            (folder / site / name).mkdir(parents=True)
        for k in range(9):
            image, mask, _ = disc(100 * number + k, shift)
            Image.fromarray(image).save(folder / site / "images" / f"c{k}.png")
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
def test_a_tree_of_sites_is_redrawn_and_undone(feda3i, tmp_path, kind):
    tree, target = make_tree(tmp_path / "sites", DRAWN, kind), tmp_path / "out"
    before = tree_bytes(tree)
    code, out, err = feda3i("redraw", tree, target)
    assert code == 0, err
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
    with (target / "changes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["site"] for row in rows} >= {"left", "right"}
    first = next(row for row in rows if row["site"] == "left")
    assert float(first["px"]) < 0
    assert int(first["area_after"]) < int(first["area_before"])
    for name in ("changes.csv", "redrawn.html"):
        assert stat.S_IMODE((target / name).stat().st_mode) == 0o600
    page = (target / "redrawn.html").read_text("utf-8")
    assert "Before and after" in page
    code, out, err = feda3i("redraw", tree, target, "--undo")
    assert code == 0, err
    after = tree_bytes(target)
    assert {name: after[name] for name in before} == before
    assert "undone-changes.csv" in after
    assert feda3i("redraw", tree, target, "--undo")[0] == 1


def test_a_dry_run_writes_nothing_and_trusted_sites_stay(feda3i, plain, tmp_path):
    for trusted in (("--trusted-site", "middle"), ("--trusted", plain / "middle")):
        code, out, _ = feda3i("redraw", plain, tmp_path / "a", "--dry-run", *trusted)
        assert code == 0
        assert "b0 of the trusted masks" in out
        assert "left: moves its contours by -" in out
        assert "middle: stays" in out or trusted[0] == "--trusted"
    assert not (tmp_path / "a").exists()


def test_an_edited_mask_stops_an_undo(feda3i, plain, tmp_path):
    target = tmp_path / "out"
    assert feda3i("redraw", plain, target)[0] == 0
    mask = target / "left" / "masks" / "c0.png"
    Image.fromarray(np.eye(SIDE, dtype=np.uint8) * 255).save(mask)
    before = tree_bytes(target)
    code, _, err = feda3i("redraw", plain, target, "--undo")
    assert code == 1
    assert "was changed since it was redrawn" in err
    assert tree_bytes(target) == before


def test_careful_sites_are_copied_as_they_are(feda3i, tmp_path):
    folder = make_tree(tmp_path / "sites", {"s0": 0.0, "s1": 0.0})
    code, out, err = feda3i("redraw", folder, tmp_path / "out")
    assert code == 0, err
    made, given = tree_bytes(tmp_path / "out"), tree_bytes(folder)
    assert {name: made[name] for name in given} == given
    assert "0 masks redrawn" in out


def test_volumes_of_nnunet_keep_names_and_geometry(feda3i, tmp_path):
    itk = pytest.importorskip("SimpleITK")
    folder = tmp_path / "site"
    affine = (0.8, 0.8, 2.0)
    for number, shift in enumerate((3.0, -3.0)):
        root = folder / f"hospital-{number}" / "Dataset001_Ball"
        for k in range(9):
            draw = np.random.default_rng(10 * number + k)
            grid = np.indices((14, 40, 40)) * np.array([2.5, 1, 1]).reshape(3, 1, 1, 1)
            centre = np.array([17.0, 20.0, 20.0]) + draw.uniform(-1, 1, 3)
            away = np.sqrt(((grid - centre.reshape(3, 1, 1, 1)) ** 2).sum(axis=0))
            image = np.where(away < 10, 900, 300) + draw.normal(0, 40, away.shape)
            drawn = shift_mask(away < 10, shift, (2.5, 1, 1)).astype(np.uint8)
            for kind, array, name in (
                ("imagesTr", image.astype(np.float32), f"ball_{k:03}_0000.nii.gz"),
                ("labelsTr", drawn, f"ball_{k:03}.nii.gz"),
            ):
                (root / kind).mkdir(parents=True, exist_ok=True)
                made = itk.GetImageFromArray(array)
                made.SetSpacing(affine)
                made.SetOrigin((5.0, -3.0, 7.0))
                itk.WriteImage(made, str(root / kind / name))
    code, out, err = feda3i("redraw", folder, tmp_path / "out")
    assert code == 0, err
    assert "18 masks redrawn" in out
    name = "hospital-0/Dataset001_Ball/labelsTr/ball_000.nii.gz"
    before, after = (itk.ReadImage(str(root / name)) for root in (folder, tmp_path / "out"))
    assert after.GetSpacing() == pytest.approx(before.GetSpacing())
    assert after.GetOrigin() == pytest.approx(before.GetOrigin())
    volumes = [itk.GetArrayFromImage(one).sum() for one in (before, after)]
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
    code, _, err = feda3i("redraw", plain, tmp_path / "out", *options)
    assert code
    assert said in err
    for target in (plain / "new", plain):
        code, _, err = feda3i("redraw", plain, target)
        assert code
        assert "choose a" in err
