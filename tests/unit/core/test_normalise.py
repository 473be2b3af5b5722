import numpy as np
import pytest
import torch

from feda3i.core.normalise import Normalise, apply_lines, byte_picture
from feda3i.errors import RecipeError

SCALED = [Normalise("zscore"), Normalise("zscore", "nonzero"), Normalise("percentiles")]
SCALED += [Normalise("percentiles", "nonzero", (2.0, 98.0))]


def scan(seed=0):
    values = np.random.default_rng(seed).normal(300, 80, (6, 7, 8, 2)).astype(np.float32)
    values[:2] = 0
    return values


def test_every_rule_is_its_plain_formula():
    image = scan()
    for c in range(2):
        values = image[..., c]
        part = values[values != 0]
        low, high = np.percentile(values, (5, 95))
        shares = np.clip((values - low) / (high - low), 0, 1)
        for rule, expected in [
            (Normalise("zscore"), 128 + 64 * (values - values.mean()) / values.std()),
            (Normalise("zscore", "nonzero"), 128 + 64 * (values - part.mean()) / part.std()),
            (Normalise("constant", by=(100.0, 50.0)), 128 + 64 * (values - 100) / 50),
            (Normalise("percentiles", by=(5.0, 95.0)), 255 * shares),
        ]:
            np.testing.assert_allclose(rule(image)[..., c], expected, rtol=1e-3, atol=0.02)


@pytest.mark.parametrize("rule", [*SCALED, Normalise(), Normalise("window", by=(10.0, 400.0))])
def test_tensors_and_arrays_agree_and_what_surrounds_a_case_is_its_lowest_value(rule):
    images = np.stack([scan(0), scan(1)])
    tensor = torch.from_numpy(images).permute(0, 4, 1, 2, 3)
    lines = [rule.line(one) for one in images]
    seen = apply_lines(tensor, lines).permute(0, 2, 3, 4, 1).numpy()
    for one, image in zip(seen, images, strict=True):
        np.testing.assert_allclose(one, rule(image), atol=0.05)
        if rule in SCALED:
            lowest = rule(image).reshape(-1, 2).min(axis=0)
            np.testing.assert_allclose(rule.line(image).fill, lowest, atol=0.01)


def test_a_flat_case_has_no_contrast_but_is_finite():
    for rule in (*SCALED, Normalise("window", by=(0.0, 1.0))):
        assert np.isfinite(rule(np.zeros((3, 3, 1), np.float32))).all()
        assert np.isfinite(rule(np.full((3, 3, 1), 7, np.int16))).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "zscor"}, "zscore"),
        ({"name": "window"}, "normalise_by"),
        ({"name": "window", "by": (5.0, 5.0)}, "lowest"),
        ({"name": "constant", "by": (0.0, 0.0)}, "above 0"),
        ({"name": "percentiles", "by": (-1.0, 50.0)}, "0 to 100"),
        ({"name": "zscore", "by": (0.0, 1.0)}, "no effect"),
        ({"name": "none", "over": "nonzero"}, "no effect"),
    ],
)
def test_wrong_rules_say_what_is_expected(arguments, words):
    with pytest.raises(RecipeError, match=words):
        Normalise(**arguments)


def test_pictures_to_look_at():
    assert byte_picture(scan(), Normalise("zscore")).dtype == np.uint8
    kept = np.arange(4, dtype=np.uint8).reshape(2, 2, 1)
    np.testing.assert_array_equal(byte_picture(kept, Normalise()), kept)
