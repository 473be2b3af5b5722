"""Augmentation: images and masks move alike, values stay in range, and every draw is scoped."""

from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch

from feda3i.core.augment import PRESETS, Preset, _blurred, change_values, draw_places
from feda3i.core.training import Training
from feda3i.errors import RecipeError
from feda3i.methods.corrected import current_masks, pack_masks
from feda3i.testing import tiny_federation
from stepping import Steps


def test_presets_are_those_of_the_recipe_and_take_volumes():
    assert get_args(Training.model_fields["augment"].annotation) == ("none", *PRESETS)
    for depth in (1, 8):
        images = torch.rand(2, 1, depth, 12, 10, generator=torch.Generator().manual_seed(0))
        for preset in PRESETS.values():
            draw = np.random.default_rng(0)
            moved = draw_places(preset, draw, images)(images, smooth=True)
            changed = change_values(preset, draw, moved)
            assert changed.shape == images.shape
            assert torch.isfinite(changed).all()


@pytest.mark.parametrize(("flips", "axis"), [((-1,), 3), ((-2,), 2)])
def test_flips_are_exact(flips, axis):
    x = torch.arange(24.0).reshape(1, 1, 4, 6).expand(8, -1, -1, -1).contiguous()
    places = draw_places(Preset(flips=flips), np.random.default_rng(0), x)
    moved = places(x, smooth=True)
    mirrored = [not torch.allclose(one, x[0], atol=1e-4) for one in moved]
    assert 0 < sum(mirrored) < 8
    for one, is_mirrored in zip(moved, mirrored, strict=True):
        torch.testing.assert_close(one, x[0].flip(axis - 1) if is_mirrored else x[0])


def test_a_quarter_turn_keeps_distances_in_pixels_and_in_millimetres():
    x = torch.zeros(1, 1, 21, 41)
    x[0, 0, 10, 23] = 1.0
    quarter = SimpleNamespace(uniform=lambda low, high, size: np.full(size, high))
    places = draw_places(Preset(rotation=90.0, beyond="border"), quarter, x)
    assert places(x, smooth=False).nonzero()[:, 2:].tolist() in ([[7, 20]], [[13, 20]])
    # Voxels four times as high as wide: eight in the plane become two slices.
    x = torch.zeros(1, 1, 11, 33, 33)
    x[0, 0, 5, 24, 16] = 1.0
    angles = iter([0.0, 0.0, 90.0])  # about the axis that stays within the slices
    about = SimpleNamespace(uniform=lambda low, high, size: np.full(size, next(angles, 0.0)))
    places = draw_places(Preset(rotation=90.0), about, x, np.array([[4.0, 1.0, 1.0]]))
    found = places(x, smooth=False).nonzero()[:, 2:]
    assert set(found[:, 0].tolist()) <= {3, 7}
    assert found[:, 1:].float().mean(0).tolist() == [16.0, 16.0]


@pytest.mark.parametrize("name", PRESETS)
def test_masks_stay_on_their_objects(name):
    """A threshold finds the object in the moved image where the moved mask says it is."""
    middles = np.random.default_rng(3).uniform(15, 25, (6, 2, 1, 1))
    inside = ((np.indices((40, 40)) - middles) ** 2).sum(1) < 64
    masks = torch.from_numpy(inside)[:, None].float()
    images = 50 + 150 * masks
    places = draw_places(PRESETS[name], np.random.default_rng(1), images)
    moved, masks = places(images, smooth=True), places(masks, smooth=False)
    assert set(masks.unique().tolist()) == {0.0, 1.0}
    assert ((moved > 125).float() != masks).float().mean() < 0.01
    assert not torch.equal(moved, images)


@pytest.mark.parametrize("scale", [1.0, 255.0, 4000.0])
def test_values_keep_their_range_on_every_scale(scale):
    images = torch.rand(8, 2, 16, 16, generator=torch.Generator().manual_seed(0)) - 0.25
    images[3] = 0.5  # a case of one value has no range
    base = change_values(PRESETS["ultrasound"], np.random.default_rng(5), images)
    changed = change_values(PRESETS["ultrasound"], np.random.default_rng(5), scale * images)
    torch.testing.assert_close(changed / scale, base, rtol=1e-4, atol=1e-5)
    low, high = images.flatten(1).amin(1), images.flatten(1).amax(1)
    assert (base.flatten(1).amin(1) >= low - 1e-6).all()
    assert (base.flatten(1).amax(1) <= high + 1e-6).all()
    assert torch.equal(base[3], images[3])
    assert not torch.equal(base, images)


def test_blur_has_the_variance_it_says():
    x = torch.zeros(1, 1, 41, 41)
    x[0, 0, 20, 20] = 1.0
    most = SimpleNamespace(random=np.ones)
    for sigma in (0.5, 0.7, 1.2):
        blurred = _blurred(Preset(blur=sigma, part=2.0), most, x)[0, 0]
        places = torch.arange(41.0) - 20
        assert float(blurred.sum()) == pytest.approx(1.0, abs=1e-5)
        assert float((blurred.sum(0) * places**2).sum()) == pytest.approx(sigma**2, rel=1e-4)


def batches_of(site, epoch=0):
    return list(site.augmented(site.batches(epoch), epoch))


def test_a_batch_depends_on_site_round_and_epoch_only(tmp_path):
    steps = Steps(tmp_path, "fedavg", augment="dermoscopy")
    asked = [("site-1", 0), ("site-1", 0), ("site-1", 1), ("site-2", 0)]
    first, again, *others = (batches_of(steps.site(name), epoch)[1] for name, epoch in asked)
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.masks, again.masks)
    assert not any(torch.equal(first.images, other.images) for other in others)


def test_only_training_sees_changed_cases(tmp_path):
    plain, changed = (
        Steps(tmp_path / name, "feda3i", {"t1": 1}, augment=name) for name in ("none", "dermoscopy")
    )
    sites = [steps.site("site-1") for steps in (plain, changed)]
    answers = [repr(plain.method.survey(site)) for site in sites]  # NaN is not equal to NaN
    assert answers[0] == answers[1]
    plain.play()
    changed.play()
    assert not np.array_equal(plain.values, changed.values)


def test_what_is_remembered_of_a_case_follows_its_pixels(tmp_path):
    """With the given masks as corrected ones, and as a peer's choice, nothing may change."""
    federation = tiny_federation(classes=2)
    steps = Steps(tmp_path, "adele", federation=federation, augment="dermoscopy")
    site = steps.site("site-1")
    given = np.stack([site.given_masks() == k for k in (1, 2)], axis=1)
    site.memory["masks"] = pack_masks(given)
    for batch in batches_of(site):
        assert torch.equal(current_masks(site, batch), batch.masks)
        choice = torch.from_numpy(given[batch.positions])
        assert torch.equal(batch.follow(choice), batch.masks > 0.5)
        assert replace(batch, places=None).follow(choice) is choice


def test_elr_refuses_because_its_memory_belongs_to_pixels(tmp_path):
    with pytest.raises(RecipeError, match=r"remembers predictions pixel by pixel.*augment=none"):
        Steps(tmp_path, "elr", augment="mri")
