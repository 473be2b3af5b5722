"""What every noise model promises: run on each registered one."""

import warnings

import numpy as np
import pytest

from feda3i.errors import DataError
from feda3i.noise import REGISTRY, Annotator, NoiseWarning, build_model
from noise_shapes import disc

pytestmark = pytest.mark.filterwarnings("ignore::feda3i.noise.model.NoiseWarning")

OBJECTS = {"omit": {}, "add": {"cases": 1.0}, "swap": {"classes": 255}}
"""Noise of whole objects, with options that suit the masks below; mu means nothing to it."""
BORDERS = [name for name in REGISTRY.names() if name not in OBJECTS]
MOVING = {
    f"{name} {mu:+g}": build_model(name, Annotator(mu, 1.5, 0.25))
    for name in BORDERS
    for mu in (4.0, -4.0)
}
MODELS = MOVING | {
    name: build_model(name, Annotator(0.0, 0.0), options) for name, options in OBJECTS.items()
}


def masks():
    one = disc(14, 64, (24, 30))[:48]
    several, dot, line, frame = one.copy(), *np.zeros((3, 48, 64), np.uint8)
    several[2:6, 50:60] = several[40, 60] = 1
    dot[20, 20] = line[10, 5:55] = frame[:20, :25] = 1
    return {
        "one": one,
        "bool": one.astype(bool),
        "int64": one.astype(np.int64),
        "255": one * np.uint8(255),
        "ring": one - disc(6, 64, (24, 30))[:48],
        **{"several": several, "dot": dot, "line": line, "frame": frame},
        "full": np.ones_like(one),
        "nearly full": np.pad(np.ones((46, 62), np.uint8), 1),
        "labels": one * np.where(np.arange(64) > 30, 2, 1).astype(np.uint8),
        "not contiguous": np.repeat(one, 2, axis=1)[:, ::2],
    }


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("mask", masks().values(), ids=masks())
def test_shape_type_values_and_seed(model, mask):
    before = mask.copy()
    noisy = model(mask, np.random.default_rng(0))
    np.testing.assert_array_equal(mask, before)  # the clean mask is left alone
    assert noisy.shape == mask.shape
    assert noisy.dtype == mask.dtype
    if model in MOVING.values():
        assert set(np.unique(noisy)) <= {0, *np.unique(mask).tolist()}
    np.testing.assert_array_equal(noisy, model(mask, np.random.default_rng(0)))
    assert not np.shares_memory(noisy, mask)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_nothing_to_draw_stays_nothing_and_wrong_masks_are_refused(model):
    for empty in (np.zeros((20, 30), np.uint8), np.zeros((1, 1), bool)):
        assert not model(empty, np.random.default_rng(0)).any()
    shapes = [np.zeros(shape, np.uint8) for shape in ((2, 2, 2, 2, 2), (0, 5))]
    values = [np.zeros((8, 8)), np.array([[0, -1]]), np.arange(400).reshape(20, 20), [[0, 1]]]
    for wrong in shapes + values:
        with pytest.raises(DataError, match="expected"):
            model(wrong, np.random.default_rng(0))


@pytest.mark.parametrize("name", BORDERS)
def test_the_sign_of_mu_is_the_direction_and_another_seed_draws_another_mask(name):
    clean = masks()["one"]
    for mu in (5.0, -5.0):
        model = build_model(name, Annotator(mu, 1.0, 0.25))
        drawn = [model(clean, np.random.default_rng(k)) for k in range(12)]
        assert len({mask.tobytes() for mask in drawn}) >= 4
        assert (np.mean([mask.sum() for mask in drawn]) > clean.sum()) == (mu > 0)


@pytest.mark.parametrize("name", ["contour", "levelset"])
@pytest.mark.parametrize("mask", masks().values(), ids=masks())
def test_contour_noise_never_loses_an_object(name, mask):
    model = build_model(name, Annotator(-7.0, 2.0, 0.25))
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoiseWarning)
        for seed in range(5):
            assert model(mask, np.random.default_rng(seed)).any()


@pytest.mark.parametrize("name", ["levelset", "flip", "morphology"])
def test_volumes(name):
    ball = (np.linalg.norm(np.mgrid[:20, :24, :28] - 12, axis=0) <= 7).astype(np.uint8)
    noisy = build_model(name, Annotator(3.0, 1.0, 0.25))(ball, np.random.default_rng(0))
    assert noisy.shape == ball.shape
    assert noisy.sum() != ball.sum()
