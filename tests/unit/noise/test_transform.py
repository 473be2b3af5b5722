"""Noise for tensors, batches and dictionaries; a seed is as good as a generator."""

import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import Compose

from feda3i.errors import DataError, RecipeError
from feda3i.noise import (
    REGISTRY,
    Annotator,
    ContourEvolution,
    NoisyMaskd,
    SignedDistanceEvolution,
    build_model,
    noisy,
)
from noise_shapes import disc

SHRINK = ContourEvolution(mu=-3, sigma=1)
TWO = np.stack([disc(14, 64), disc(18, 64)])


@pytest.mark.parametrize("name", REGISTRY.names())
def test_a_seed_gives_what_its_generator_gives(name):
    model, mask = build_model(name, Annotator(4.0, 1.5, 0.25)), disc(14, 64)
    for seed in (3, np.int64(3)):
        np.testing.assert_array_equal(model(mask, seed), model(mask, np.random.default_rng(3)))


@pytest.mark.parametrize(
    "masks",
    [
        TWO,
        TWO[:, None].astype(np.float32),
        torch.from_numpy(TWO[:, None]).to(torch.int64),
        torch.from_numpy(TWO[0] != 0),
        MetaTensor(torch.from_numpy(TWO), meta={"id": "a"}),
    ],
    ids=["(B,H,W)", "floats (B,1,H,W)", "tensor (B,1,H,W)", "bool (H,W)", "MONAI"],
)
def test_masks_of_any_kind_keep_it_and_get_the_same_noise(masks):
    given = masks.copy() if isinstance(masks, np.ndarray) else masks.clone()
    found = noisy(masks, SHRINK, 5)
    assert (type(found), found.dtype, found.shape) == (type(masks), masks.dtype, masks.shape)
    assert (given == masks).all(), "the given masks are left alone"
    rng = np.random.default_rng(5)
    flat = np.asarray(masks).astype(np.uint8).reshape(-1, 64, 64)
    expected = np.stack([SHRINK(mask, rng) for mask in flat])
    np.testing.assert_array_equal(np.asarray(found).reshape(-1, 64, 64), expected)
    np.testing.assert_array_equal(noisy(masks, SHRINK, np.random.default_rng(5)), found)
    assert getattr(found, "meta", {"id": "a"})["id"] == "a"


def test_a_case_of_a_dictionary_keeps_its_mask_and_nothing_else_changes():
    label = disc(14, 64)[None].astype(np.float32)
    given = {"image": np.zeros((3, 64, 64)), "label": label.copy(), "id": "case-7"}
    change = Compose([NoisyMaskd("label", SHRINK, case="id")])
    first = change(given)
    assert first["image"] is given["image"]
    assert first["label"].dtype == np.float32
    assert 0 < first["label"].sum() < given["label"].sum() == label.sum()
    np.testing.assert_array_equal(change(given)["label"], first["label"])
    assert (change({**given, "id": "case-8"})["label"] != first["label"]).any()
    other = NoisyMaskd(["label"], SHRINK, case="id", seed=1)
    assert (other(given)["label"] != first["label"]).any()


def test_volumes_have_three_dimensions_and_mistakes_are_explained():
    balls = (np.linalg.norm(np.mgrid[:20, :20, :20] - 10, axis=0) <= 6)[None, None]
    found = noisy(balls, SignedDistanceEvolution(2, 0), 0, dimensions=3)
    np.testing.assert_array_equal(found[0, 0], SignedDistanceEvolution(2, 0)(balls[0, 0], 0))
    for wrong in (None, 1.5, -1, True, "0"):
        with pytest.raises(RecipeError, match=r"expected a seed .* or a generator"):
            SHRINK(disc(14, 64), wrong)
    for masks, said in ((np.full((1, 8, 8), 0.5), "found fractions"), ("a.png", "found str")):
        with pytest.raises(DataError, match=said):
            noisy(masks, SHRINK, 0)
