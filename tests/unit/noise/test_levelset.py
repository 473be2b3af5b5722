"""C(mu, sigma) by signed distance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from feda3i.errors import DataError
from feda3i.geometry import signed_distance
from feda3i.noise import SignedDistanceEvolution
from feda3i.noise.levelset import smooth_field
from noise_shapes import disc


@pytest.mark.parametrize(("radius", "mu"), [(70, 8), (40, -8), (40, 8), (20, 8), (40, -15)])
def test_constant_bias_is_the_level_set_of_the_distance(radius: int, mu: float) -> None:
    clean = disc(radius)
    noisy = SignedDistanceEvolution(mu, 0)(clean, np.random.default_rng(0))
    np.testing.assert_array_equal(noisy, signed_distance(clean) <= mu)
    assert noisy.sum() / clean.sum() == pytest.approx(((radius + mu) / radius) ** 2, abs=0.04)


def test_the_border_moves_by_mu_with_the_spread_of_the_contour_model() -> None:
    """Offsets of the noisy border along rays from the centre: mean mu, spread 0.5 to 1 sigma."""
    rng, clean = np.random.default_rng(0), disc(60)
    model = SignedDistanceEvolution(0, 5)
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    steps = np.arange(0, 100, 0.5)
    rows = np.rint(128 + np.outer(np.sin(angles), steps)).astype(int)
    cols = np.rint(128 + np.outer(np.cos(angles), steps)).astype(int)
    offsets = np.array([model(clean, rng)[rows, cols].sum(axis=1) / 2 for _ in range(200)]) - 60.5
    assert offsets.mean() == pytest.approx(0, abs=0.5)
    spread = offsets.std(axis=0) / 5  # 1 at the start pixel, 0.5 far from it; any may be the start
    assert 0.45 < spread.min() < spread.max() < 0.8


def test_components_holes_and_frame() -> None:
    mask = np.zeros((60, 90), np.uint8)
    mask[10:50, 0:40] = 1
    mask[25:35, 15:25] = 0
    mask[20:22, 70:72] = 1
    shrunk = SignedDistanceEvolution(-3, 0)(mask, np.random.default_rng(0))
    assert shrunk[30, 0] == 1  # the frame is not a border
    assert shrunk[30, 13] == 0  # the hole grew
    assert ndimage.label(shrunk)[1] == 2  # the small object left its core
    grown = SignedDistanceEvolution(6, 0)(mask, np.random.default_rng(0))
    assert grown[30, 20] == 1
    assert SignedDistanceEvolution(-30, 0)(disc(10, 64), np.random.default_rng(0)).any()
    full = np.ones((5, 6, 7), np.uint8)
    np.testing.assert_array_equal(SignedDistanceEvolution(-2, 1)(full, 0), full)
    with pytest.raises(DataError, match="one per pixel size"):
        SignedDistanceEvolution(4, 0, spacing=(1, 1))(full, 0)


def test_the_field_is_standard_normal_everywhere_and_smooth() -> None:
    axes = [np.arange(30.0), np.arange(24.0)]
    rng = np.random.default_rng(0)
    drawn = np.array([smooth_field(axes, 6.0, rng) for _ in range(1500)])
    np.testing.assert_allclose(drawn.std(axis=0), 1, atol=0.09)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.1)
    near = np.corrcoef(drawn[:, 10, 10], drawn[:, 10, 11])[0, 1]
    far = np.corrcoef(drawn[:, 2, 2], drawn[:, 28, 20])[0, 1]
    assert near > 0.95 > 0.1 > abs(far)
