"""Local, clean and central: what they see, and what they equal."""

from dataclasses import replace

import numpy as np

from feda3i.testing import tiny_federation
from stepping import Steps, played, unequal, with_noisy


def only(federation, name):
    return replace(federation, sites={name: federation.sites[name]})


def test_local_equals_fedavg_on_each_site_alone_bit_for_bit(tmp_path):
    steps = Steps(tmp_path / "local", "local", None, unequal())
    steps.play(3)
    models = steps.method.models(steps.server)
    assert list(models) == ["site-1", "site-2", "site-3"]
    for name, model in models.items():
        alone = played(tmp_path / name, "fedavg", None, only(unequal(), name), rounds=3)
        np.testing.assert_array_equal(model.values, alone)


def test_a_late_site_starts_from_the_initialisation_not_from_the_others(tmp_path):
    steps = Steps(tmp_path / "local", "local")
    steps.lose("site-2", 1)
    steps.play(2)
    late = Steps(tmp_path / "late", "fedavg", None, only(tiny_federation(), "site-2"))
    late.round = 1  # its batches are those of round 2
    late.play()
    model = steps.method.models(steps.server)["site-2"]
    np.testing.assert_array_equal(model.values, late.values)


def test_clean_trains_on_the_truth(tmp_path):
    noisy = with_noisy(tiny_federation(), "site-1")
    clean = played(tmp_path, "clean", None, noisy)
    np.testing.assert_array_equal(clean, played(tmp_path, "fedavg", None, tiny_federation()))
    assert not np.array_equal(clean, played(tmp_path / "noisy", "fedavg", None, noisy))


def test_central_trains_on_all_cases_as_one_site(tmp_path):
    federation = unequal()
    pooled = np.sort(np.concatenate([federation.sites[n] for n in federation.names()]))
    one = replace(federation, sites={"all": pooled})
    steps = Steps(tmp_path / "central", "central", None, federation)
    event = steps.play(2)
    assert event["answered"] == 1
    np.testing.assert_array_equal(steps.values, played(tmp_path, "fedavg", None, one))
