"""How often single starts of the mixture give the groups that were taken."""

import math

import numpy as np
import pytest

from feda3i.quality import Grouping, SiteSurvey, doubts, group_sites, rate_sites, say_lines


def two_clouds(sites=20):
    random = np.random.default_rng(0)
    centres = np.repeat([[0.8, 0.2], [0.2, 0.9]], sites // 2, axis=0)
    return centres + random.normal(0, 0.03, centres.shape)


def one_cloud(sites=20):
    """Return one round cloud: where it is cut in two is chance."""
    return 1 + 0.1 * np.random.default_rng(2).normal(size=(sites, 2))


def rating_of(q):
    surveys = {
        f"site-{k:02d}": SiteSurvey(np.array([row]), np.array([row]), np.array([8]))
        for k, row in enumerate(q)
    }
    return rate_sites(surveys)


@pytest.mark.parametrize("rule", ["mixture", "difference"])
def test_clear_groups_are_found_by_every_start(rule):
    found = group_sites(two_clouds(), rule)
    assert found.agreement == 1.0
    assert not found.is_doubtful


def test_a_cloud_without_groups_is_cut_elsewhere_by_other_starts():
    found = group_sites(one_cloud())
    assert 0.0 <= found.agreement < 0.5
    assert found.is_doubtful
    assert group_sites(one_cloud()).agreement == found.agreement  # seeded


@pytest.mark.parametrize("rule", ["sign", "midrange", "none"])
def test_rules_without_a_mixture_have_no_agreement(rule):
    found = group_sites(one_cloud(), rule)
    assert math.isnan(found.agreement)
    assert not found.is_doubtful


def test_one_group_has_no_agreement():
    assert math.isnan(group_sites(one_cloud(60), bic_guard=True).agreement)


def test_agreement_survives_json_and_older_checkpoints():
    found = group_sites(two_clouds())
    assert Grouping.from_dict(found.to_dict()).agreement == 1.0
    older = {key: value for key, value in found.to_dict().items() if key != "agreement"}
    assert math.isnan(Grouping.from_dict(older).agreement)
    assert group_sites(two_clouds(), "sign").to_dict()["agreement"] is None


def test_doubtful_groups_are_told_on_the_console_and_with_the_result():
    clear, doubtful = rating_of(two_clouds()), rating_of(one_cloud())
    assert doubts(clear) == []
    (line,) = doubts(doubtful)
    share = doubtful.parts[0].grouping.agreement
    assert f"{100 * share:.0f} % of single starts" in line
    counts = [8] * len(doubtful.sites)
    assert line in say_lines(doubtful, doubtful.sites, counts)
