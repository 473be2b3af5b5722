"""A seed is as good as a generator, and noise is a transform of MONAI's pipelines."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, MapTransform, Randomizable

from feda3i.errors import DataError, RecipeError
from feda3i.noise import (
    REGISTRY,
    Annotator,
    ContourEvolution,
    MarkovNoise,
    build_model,
    calibrate,
    draw_annotators,
    pixel_dependence,
)
from feda3i.noise.transform import NoisyMaskd
from noise_shapes import disc

SHRINK = ContourEvolution(mu=-3, sigma=1)


@pytest.mark.parametrize("name", REGISTRY.names())
def test_a_seed_gives_what_its_generator_gives(name):
    model, mask = build_model(name, Annotator(4.0, 1.5, 0.25)), disc(14, 64)
    np.testing.assert_array_equal(model(mask, 3), model(mask, np.random.default_rng(3)))
    np.testing.assert_array_equal(model(mask, np.int64(3)), model(mask, 3))


def test_a_seed_goes_wherever_noise_takes_a_generator():
    mask, seven = disc(14, 64), lambda: np.random.default_rng(7)
    np.testing.assert_array_equal(SHRINK.evolve(mask, 7).mask, SHRINK.evolve(mask, seven()).mask)
    walk = MarkovNoise(20).walk
    np.testing.assert_array_equal(walk(mask, 7), walk(mask, seven()))
    setting = (6, 20, -20, 10, 0.5)
    assert draw_annotators(*setting, 7) == draw_annotators(*setting, seven())
    found = [pixel_dependence(SHRINK, mask, 4, r, rotations=9).near for r in (7, seven())]
    assert found[0] == found[1]
    family = lambda s: ContourEvolution(-s, 0.5)
    assert calibrate(family, [mask], 0.8, 7).dice == calibrate(family, [mask], 0.8, seven()).dice


@pytest.mark.parametrize("wrong", [None, 1.5, -1, True, "0"])
def test_what_is_neither_is_refused_with_a_way_out(wrong):
    with pytest.raises(RecipeError, match=r"expected a seed .* or a generator"):
        SHRINK(disc(14, 64), wrong)


def label(**more):
    return {"image": np.zeros((3, 64, 64)), "label": disc(14, 64)[None].astype(np.float32), **more}


def test_compose_seeds_it_and_it_changes_only_its_keys():
    steps = Compose([NoisyMaskd("label", SHRINK)])
    assert isinstance(steps.transforms[0], MapTransform)
    assert isinstance(steps.transforms[0], Randomizable)
    given = label()
    drawn = [steps.set_random_state(5)(given) for _ in range(2)]
    np.testing.assert_array_equal(drawn[0]["label"], drawn[1]["label"])
    again = steps(given)["label"]
    assert (again != drawn[0]["label"]).any(), "the next call draws anew"
    assert drawn[0]["label"].dtype == np.float32
    assert drawn[0]["label"].sum() < given["label"].sum()
    assert drawn[0]["image"] is given["image"]
    np.testing.assert_array_equal(given["label"], label()["label"])


def test_tensors_keep_their_kind_and_channels_are_masks():
    twice = torch.from_numpy(np.stack([disc(14, 64), disc(8, 64)])).to(torch.int32)
    meta = MetaTensor(twice, meta={"filename_or_obj": "a.nii"})
    noisy = NoisyMaskd(["label"], SHRINK).set_random_state(0)({"label": meta})["label"]
    assert isinstance(noisy, MetaTensor)
    assert noisy.meta["filename_or_obj"] == "a.nii"
    assert noisy.dtype == torch.int32
    assert (noisy.sum(dim=(1, 2)) < twice.sum(dim=(1, 2))).all()
    assert (noisy.sum(dim=(1, 2)) > 0).all()
    flat = NoisyMaskd("label", SHRINK, channel_dim=None).set_random_state(0)
    assert flat({"label": disc(14, 64)})["label"].shape == (64, 64)


def test_a_case_keeps_its_mask_over_epochs_and_seeds():
    first = NoisyMaskd("label", SHRINK, case="id").set_random_state(1)
    other = NoisyMaskd("label", SHRINK, case="id").set_random_state(2)
    masks = [t(label(id="case-7"))["label"] for t in (first, first, other)]
    np.testing.assert_array_equal(masks[0], masks[1])
    np.testing.assert_array_equal(masks[0], masks[2])
    assert (first(label(id="case-8"))["label"] != masks[0]).any()
    assert (
        NoisyMaskd("label", SHRINK, case="id", seed=1)(label(id="case-7"))["label"] != masks[0]
    ).any()
    with pytest.raises(DataError, match="name of the case under 'id'"):
        first(label())


def test_mistakes_are_explained():
    with pytest.raises(DataError, match="whole numbers, found fractions"):
        NoisyMaskd("label", SHRINK)({"label": np.full((1, 8, 8), 0.5)})
    with pytest.raises(RecipeError, match="expected a callable"):
        NoisyMaskd("label", 3)
    with pytest.raises(DataError, match="array or tensor, found str"):
        NoisyMaskd("label", SHRINK)({"label": "a.png"})
    with pytest.raises(KeyError, match="mask"):
        NoisyMaskd("mask", SHRINK)(label())
    assert set(NoisyMaskd("mask", SHRINK, allow_missing_keys=True)(label())) == {"image", "label"}


def test_it_works_without_monai():
    code = """
import sys; sys.modules["monai"] = None; sys.modules["monai.transforms"] = None
import pickle, numpy as np
from feda3i.noise import ContourEvolution
from feda3i.noise.transform import NoisyMaskd
data = pickle.loads(sys.stdin.buffer.read())
change = NoisyMaskd(["label"], ContourEvolution(mu=-3, sigma=1)).set_random_state(5)
sys.stdout.buffer.write(pickle.dumps(change(data)["label"]))
try:
    NoisyMaskd("mask", ContourEvolution(0, 1))(data)
except KeyError as error:
    sys.exit(0 if "no entry 'mask'" in str(error) else 1)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(label()), check=True, capture_output=True
    )
    with_monai = NoisyMaskd("label", SHRINK).set_random_state(5)(label())["label"]
    np.testing.assert_array_equal(pickle.loads(run.stdout), with_monai)
