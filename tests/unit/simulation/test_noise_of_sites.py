"""Noisy masks of a federation: each site has its annotator, and nothing depends on the order."""

import numpy as np
import pytest

from feda3i.errors import DataError
from feda3i.noise import Annotator, apply_noise, build_model
from feda3i.noise.model import NoiseWarning
from feda3i.noise.noisy_masks import mean_dice
from noise_shapes import disc

MASKS = np.stack([disc(r, 64) for r in (8, 10, 12, 14, 16, 18, 20)])
IDS = [f"case-{k}" for k in range(7)]
SITES = {"b": np.array([0, 2, 4]), "a": np.array([5, 1, 3])}
DRAWERS = {"a": Annotator(3.0, 1.0, 0.25), "b": Annotator(-3.0, 1.0, 0.25)}


def test_each_site_has_its_own_annotator():
    done = apply_noise(MASKS, IDS, SITES, DRAWERS, seed=0)
    expected = [(site, IDS[k]) for site in "ab" for k in SITES[site]]
    assert [(row.site, row.case) for row in done.table] == expected
    for row in done.table:
        k = IDS.index(row.case)
        assert (row.area_ratio > 1) == (row.site == "a")
        assert row.area_ratio == pytest.approx(done.masks[k].sum() / MASKS[k].sum())
        assert row.dice == pytest.approx(mean_dice(MASKS[k], done.masks[k]))
    np.testing.assert_array_equal(done.masks[6], MASKS[6])  # belongs to no site
    row = apply_noise(0 * MASKS, IDS, SITES, DRAWERS, seed=0).table[0]
    assert (row.dice, np.isnan(row.area_ratio)) == (1, True)  # an empty mask stays empty


def test_noise_of_a_case_depends_on_seed_site_and_case_only():
    done = apply_noise(MASKS, IDS, SITES, DRAWERS, seed=0)
    order = np.array([4, 0, 2])
    turned = apply_noise(MASKS, IDS, {"b": order}, DRAWERS, seed=0)
    np.testing.assert_array_equal(turned.masks[order], done.masks[order])
    alone = apply_noise(MASKS[3:4], IDS[3:4], {"a": np.array([0])}, DRAWERS, seed=0)
    np.testing.assert_array_equal(alone.masks[0], done.masks[3])
    for other in (
        apply_noise(MASKS, IDS, SITES, DRAWERS, seed=1),
        apply_noise(MASKS, [f"x{i}" for i in IDS], SITES, DRAWERS, seed=0),
        apply_noise(MASKS, IDS, {"c": SITES["a"]}, {"c": DRAWERS["a"]}, seed=0),
    ):
        assert other.digest() != done.digest()


@pytest.mark.parametrize("name", ["levelset", "flip", "morphology", "markov"])
@pytest.mark.filterwarnings("ignore::feda3i.noise.model.NoiseWarning")
def test_other_models_by_name(name: str):
    done = apply_noise(MASKS, IDS, SITES, DRAWERS, seed=0, name=name)
    grown, shrunk = (np.mean([r.area_ratio for r in done.table if r.site == s]) for s in "ab")
    assert grown > 1
    # sigma of an annotator flips background, too, which outweighs small objects.
    assert shrunk < (grown if name == "flip" else 1)


def test_a_plug_in_that_changes_the_shape_is_named(tmp_path):
    file = tmp_path / "cut.py"
    file.write_text("def Cut(mu, sigma):\n    return lambda mask, rng: mask[1:]\n")
    with pytest.raises(DataError, match=r"a/case-5: expected a noisy mask \(64, 64\) uint8"):
        apply_noise(MASKS, IDS, SITES, DRAWERS, seed=0, name=f"{file}:Cut")


def test_noise_drawn_at_the_papers_size_keeps_small_objects_and_classes():
    mask = disc(4, 48)  # its contour is shorter than 30 px
    small = Annotator(mu=-0.4, sigma=0.2, scale=48 / 256)
    with pytest.warns(NoiseWarning):
        lost = build_model("contour", small, {"mode": "faithful"})(mask, np.random.default_rng(0))
    assert not lost.any()
    model = build_model("contour", small, {"mode": "faithful", "drawn_at": 256})
    kept = model(mask, np.random.default_rng(0))
    assert 0.5 < kept.sum() / mask.sum() < 1
    assert (kept.shape, kept.dtype) == (mask.shape, mask.dtype)
    labels = np.zeros((24, 40), np.uint8)
    labels[6:18, 8:20], labels[6:18, 20:32] = 1, 2
    still = build_model("levelset", Annotator(0.0, 0.0, scale=40 / 256), {"drawn_at": 256})
    assert (still(labels, np.random.default_rng(0)) == labels).all()
