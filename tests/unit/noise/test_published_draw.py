"""The authors' own annotators and partition of SKIN, rebuilt; check values from their release."""

import numpy as np
import pytest

from feda3i.data.partition import divide
from feda3i.errors import RecipeError
from feda3i.noise.annotators import annotators_of_setting, get_setting

SITES = [f"site-{number:02}" for number in range(1, 51)]


@pytest.mark.parametrize(
    ("setting", "mean", "mu", "growing"),
    [
        ("skin-ns", -6.470, (-10.976, -14.304, -12.055), 10),
        ("skin-ne", 8.364, (13.720, -17.880, 15.069), 40),
    ],
)
def test_annotators_are_those_of_the_authors_for_every_seed(setting, mean, mu, growing):
    for seed in (0, 7):
        drawn = annotators_of_setting(get_setting(setting), SITES, (256, 256), seed, "published")
        found = np.array([drawn[site].mu for site in SITES])
        assert found.mean() == pytest.approx(mean, abs=5e-4)
        assert found[:3] == pytest.approx(mu, abs=5e-4)
        assert (found > 0).sum() == growing
        sigma = [drawn[site].sigma for site in SITES[:3]]
        assert sigma == pytest.approx((6.084, 7.826, 9.326), abs=5e-4)


def test_a_setting_that_the_authors_did_not_draw_is_refused():
    with pytest.raises(RecipeError, match="published no other draw"):
        annotators_of_setting(get_setting("breast-ns"), SITES, (256, 256), 0, "published")


def test_sites_hold_the_cases_of_the_authors():
    names = ["x"] * 2000
    parts = [
        divide("published", sources=names, folders=names, sites=50, rng=np.random.default_rng(seed))
        for seed in (0, 1)
    ]
    order = np.arange(2000)
    np.random.RandomState(0).shuffle(order)
    for number, site in enumerate(SITES):
        expected = np.sort(order[40 * number : 40 * number + 40])
        assert all(np.array_equal(part[site], expected) for part in parts)
