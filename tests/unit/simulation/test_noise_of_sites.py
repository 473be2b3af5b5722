"""Noisy masks of a federation: independent of order, cached and checked."""

from __future__ import annotations

import numpy as np
import pytest

from feda3i.errors import DataError, RecipeError, RunError
from feda3i.noise import Annotator, apply_noise, build_model
from feda3i.noise.model import NoiseWarning
from feda3i.noise.noisy_masks import mean_dice
from feda3i.simulation.cache import cached_noise
from noise_shapes import disc

MASKS = np.stack([disc(r, 64) for r in (8, 10, 12, 14, 16, 18, 20)])
IDS = [f"case-{k}" for k in range(7)]
SITES = {"b": np.array([0, 2, 4]), "a": np.array([5, 1, 3])}
DRAWERS = {"a": Annotator(3.0, 1.0, 0.25), "b": Annotator(-3.0, 1.0, 0.25)}


def test_each_site_has_its_own_annotator() -> None:
    done = apply_noise(MASKS, IDS, SITES, DRAWERS, seed=0)
    assert [(row.site, row.case) for row in done.table] == [
        ("a", "case-5"),
        ("a", "case-1"),
        ("a", "case-3"),
        ("b", "case-0"),
        ("b", "case-2"),
        ("b", "case-4"),
    ]
    for row in done.table:
        k = IDS.index(row.case)
        assert (row.area_ratio > 1) == (row.site == "a")
        assert row.area_ratio == pytest.approx(done.masks[k].sum() / MASKS[k].sum())
        assert row.dice == pytest.approx(mean_dice(MASKS[k], done.masks[k]))
    np.testing.assert_array_equal(done.masks[6], MASKS[6])  # belongs to no site


def test_noise_of_a_case_depends_on_seed_site_and_case_only() -> None:
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
def test_other_models_by_name(name: str) -> None:
    done = apply_noise(MASKS, IDS, SITES, DRAWERS, seed=0, name=name)
    assert (done.masks[:6] != MASKS[:6]).any()
    grown = np.mean([row.area_ratio for row in done.table if row.site == "a"])
    shrunk = np.mean([row.area_ratio for row in done.table if row.site == "b"])
    assert grown > 1
    # sigma of an annotator flips background, too, which outweighs small objects.
    assert shrunk < (grown if name == "flip" else 1)


def test_label_maps_and_empty_masks() -> None:
    masks = MASKS.copy()
    masks[0][:, 32:] *= 2
    masks[1] = 0
    done = apply_noise(masks, IDS, SITES, DRAWERS, seed=0)
    assert set(np.unique(done.masks[0])) == {0, 1, 2}
    assert not done.masks[1].any()
    row = next(row for row in done.table if row.case == "case-1")
    assert row.dice == 1
    assert np.isnan(row.area_ratio)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(RecipeError, match="found none for b"):
        apply_noise(MASKS, IDS, SITES, {"a": DRAWERS["a"]}, seed=0)
    with pytest.raises(DataError, match="3 ids and 7 masks"):
        apply_noise(MASKS, IDS[:3], SITES, DRAWERS, seed=0)
    with pytest.raises(RecipeError, match="no option 'sides'"):
        apply_noise(MASKS, IDS, SITES, DRAWERS, seed=0, options={"sides": 3})


def test_a_plug_in_that_changes_the_shape_is_named(tmp_path) -> None:
    file = tmp_path / "cut.py"
    file.write_text("def Cut(mu, sigma):\n    return lambda mask, rng: mask[1:]\n")
    with pytest.raises(DataError, match=r"a/case-5: expected a noisy mask \(64, 64\) uint8"):
        apply_noise(MASKS, IDS, SITES, DRAWERS, seed=0, name=f"{file}:Cut")


def test_cache_is_read_again_checked_and_keyed(tmp_path, monkeypatch) -> None:
    calls: list[int] = []

    def counted(*args: object, **options: object):
        calls.append(1)
        return apply_noise(*args, **options)

    monkeypatch.setattr("feda3i.simulation.cache.apply_noise", counted)

    def draw(**change: object):
        return cached_noise(tmp_path, MASKS, IDS, SITES, DRAWERS, **{"seed": 0, **change})

    first = draw()
    again = draw()
    assert len(calls) == 1
    assert again.digest() == first.digest()
    assert again.table == first.table
    assert draw(seed=1).digest() != first.digest()
    assert draw(options={"degree": 5}).digest() != first.digest()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_damaged_cache_is_an_error(tmp_path) -> None:
    cached_noise(tmp_path, MASKS, IDS, SITES, DRAWERS, seed=0)
    (file,) = tmp_path.iterdir()
    with np.load(file) as stored:
        masks, note = stored["masks"].copy(), stored["note"]
    masks[0, 0, 0] ^= 1
    np.savez_compressed(file, masks=masks, note=note)
    with pytest.raises(RunError, match="does not match its hash"):
        cached_noise(tmp_path, MASKS, IDS, SITES, DRAWERS, seed=0)
    file.write_bytes(b"nonsense")
    with pytest.raises(RunError, match="cannot be read"):
        cached_noise(tmp_path, MASKS, IDS, SITES, DRAWERS, seed=0)


def test_noise_drawn_at_the_papers_size_keeps_small_objects() -> None:
    mask = disc(4, 48)  # its contour is shorter than 30 px
    small = Annotator(mu=-0.4, sigma=0.2, scale=48 / 256)
    with pytest.warns(NoiseWarning):
        lost = build_model("contour", small, {"mode": "faithful"})(mask, np.random.default_rng(0))
    assert not lost.any()
    model = build_model("contour", small, {"mode": "faithful", "drawn_at": 256})
    kept = model(mask, np.random.default_rng(0))
    assert 0.5 < kept.sum() / mask.sum() < 1
    assert (kept.shape, kept.dtype) == (mask.shape, mask.dtype)


@pytest.mark.parametrize("side", [8, 10_000, 12.5, "large"])
def test_a_size_to_draw_at_is_checked(side) -> None:
    with pytest.raises(RecipeError, match="drawn_at"):
        build_model("contour", Annotator(1.0, 1.0), {"drawn_at": side})


def test_classes_and_oblong_frames_survive_another_size() -> None:
    labels = np.zeros((24, 40), np.uint8)
    labels[6:18, 8:20], labels[6:18, 20:32] = 1, 2
    still = build_model("levelset", Annotator(0.0, 0.0, scale=40 / 256), {"drawn_at": 256})
    assert (still(labels, np.random.default_rng(0)) == labels).all()
