"""Validation cases: a share of every site, patients whole, one patient left to train on."""

from dataclasses import replace

import numpy as np
import pytest

from feda3i.core.holdout import drawn_groups, hold_out, with_validation
from feda3i.errors import DataError, RecipeError
from feda3i.simulation.views import as_trained
from feda3i.testing import tiny_federation


def test_every_site_keeps_its_share():
    federation = tiny_federation(sites=3, cases=4)
    kept = with_validation(federation, 0.3, 0)  # of four cases, rounded up: two
    for site in federation.names():
        assert len(kept.validation[site]) == len(kept.sites[site]) == 2
        both = np.sort(np.concatenate([kept.validation[site], kept.sites[site]]))
        np.testing.assert_array_equal(both, federation.sites[site])
    assert with_validation(kept, 0.3, 0) is kept
    assert with_validation(federation, 0.0, 0) is federation
    again, other = with_validation(federation, 0.3, 0), with_validation(federation, 0.3, 1)
    assert again.digest_of_sites() == kept.digest_of_sites() != other.digest_of_sites()


def test_a_patient_is_on_one_side_only():
    groups = np.array([f"p{k // 3}" for k in range(12)])
    cases = replace(tiny_federation(sites=1, cases=12).train, groups=tuple(groups))
    for seed in range(5):
        trained, kept = hold_out(cases, np.arange(12), 0.25, seed, "a")
        assert len(kept) == 3
        assert not {*groups[trained]} & {*groups[kept]}


def test_one_patient_is_left_to_train_on():
    assert len(drawn_groups(["a", "b"], 0.9, np.random.default_rng(0))) == 1
    assert drawn_groups(["a"] * 9, 0.9, np.random.default_rng(0)) == set()
    cases = tiny_federation(sites=1, cases=1).train
    trained, kept = hold_out(cases, np.arange(1), 0.5, 0, "a")
    assert (len(trained), len(kept)) == (1, 0)
    with pytest.raises(RecipeError, match="none has cases of two patients"):
        with_validation(tiny_federation(sites=2, cases=1), 0.5, 0)


def test_validation_cases_stay_apart():
    kept = with_validation(tiny_federation(), 0.25, 0)
    central = as_trained(kept, "central")
    assert len(central.sites["all"]) == 9
    assert len(central.validation["all"]) == 3
    federation = tiny_federation()
    with pytest.raises(DataError, match="several sites"):
        replace(federation, validation={"site-1": federation.sites["site-1"][:1]})
