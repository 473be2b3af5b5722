"""FedCorr: invariants of the method, phases, noise levels, corrections at the right time."""

import numpy as np
import pytest
import torch
from at_site import four_sites, unpack_masks

from feda3i.losses import pixel_cross_entropy
from feda3i.methods.base import make_method
from stepping import Steps

SHORT = {"t1": 1, "t2": 1}


def given_masks(steps, name):
    return steps.federation.train.masks[steps.federation.sites[name]][:, None] > 0


def current_masks(steps, name):
    memory = steps.memory(name)
    if "masks" not in memory:
        return given_masks(steps, name)
    return unpack_masks(memory["masks"], (1, 32, 32))


def test_the_stages_of_the_paper_fill_the_run():
    method = make_method("fedcorr", {})
    phases = [method.phase(round) for round in range(1, 101)]
    assert [phases.count(k) for k in (1, 2, 3)] == [2, 8, 90]
    assert phases == sorted(phases)


@pytest.mark.parametrize("loss", ["ce", "dc"])
def test_mixup_of_one_is_the_plain_loss_and_else_the_mixture(loss):
    method = make_method("fedcorr", {"loss": loss})
    torch.manual_seed(0)
    images, masks = torch.rand(4, 1, 8, 8), (torch.rand(4, 1, 8, 8) > 0.5).float()
    network = torch.nn.Conv2d(1, 1, 3, padding=1).requires_grad_(False)
    partner = torch.tensor([2, 0, 3, 1])
    plain = method.mixed_loss(network, images, masks, 1.0, partner)
    assert float(plain) == pytest.approx(float(method.criterion(network(images), masks)), abs=1e-6)
    logits = network(0.3 * images + 0.7 * images[partner])
    of_both = [method.criterion(logits, one) for one in (masks, masks[partner])]
    expected = 0.3 * of_both[0] + 0.7 * of_both[1]
    found = method.mixed_loss(network, images, masks, 0.3, partner)
    assert float(found) == pytest.approx(float(expected), abs=1e-6)


def test_the_noisy_site_is_found_and_corrected_and_the_others_are_left(tmp_path):
    steps = Steps(tmp_path, "fedcorr", {**SHORT, "kappa": 0}, four_sites(), epochs=2, lr=0.02)
    event = steps.play()
    levels = event["noise_level"]
    assert [site for site, level in levels.items() if level] == event["noisy"] == ["site-4"]
    assert 0 < levels["site-4"] <= 1
    after_stage_1 = steps.predicted("site-4")
    highest = unpack_masks(steps.memory("site-4")["highest"], (1, 32, 32))
    assert highest.sum() == int(0.5 * round(levels["site-4"] * highest.size))

    steps.play()  # phase 2: site-4 does not train, but corrects its doubtful pixels
    orders = [(o.task, o.site) for o in steps.transport.orders if o.round == 2]
    assert orders == [("survey", "site-4"), *(("fit", f"site-{k}") for k in (1, 2, 3))]
    expected = np.where(highest, after_stage_1, given_masks(steps, "site-4"))
    np.testing.assert_array_equal(current_masks(steps, "site-4"), expected)
    assert (expected != given_masks(steps, "site-4")).any()
    assert "highest" not in steps.memory("site-4")
    after_stage_2 = steps.predicted("site-4")

    steps.play()  # phase 3: with theta 0.5 its masks become the prediction
    np.testing.assert_array_equal(current_masks(steps, "site-4"), after_stage_2)
    for name in ("site-1", "site-2", "site-3"):
        assert "masks" not in steps.memory(name)
    assert steps.play()["phase"] == 3
    np.testing.assert_array_equal(current_masks(steps, "site-4"), after_stage_2)


def test_the_reported_numbers_are_those_of_the_sites_own_network(tmp_path):
    steps = Steps(tmp_path, "fedcorr", {"t1": 1})
    site = steps.site("site-2", phase=1, noise_level=0.0, relabel="nothing")
    numbers = steps.method.fit(site)
    seen = [pixel_cross_entropy(logits, batch.masks) for batch, logits in site.predict()]
    losses = torch.cat(seen).numpy()
    assert numbers["mean_loss"] == pytest.approx(losses.mean(dtype=float), abs=1e-6)
    assert 0 <= numbers["noise_level"] <= 1
    highest = unpack_masks(site.memory["highest"], (1, 32, 32))
    assert 0 < highest.sum() == int(0.5 * round(numbers["noise_level"] * losses.size))
    assert losses[highest].min() >= losses[~highest].max()


def test_the_cleanest_sites_train_in_phase_2(tmp_path):
    steps = Steps(tmp_path, "fedcorr", {"t1": 1, "kappa": 0.1})
    for levels, expected in [
        ((0.0, 0.3, 0.1), ["site-1", "site-3"]),
        ((0.5, 0.3, 0.4), ["site-2"]),
        ((), ["site-1", "site-2", "site-3"]),
    ]:
        steps.server.state["levels"] = dict(zip(steps.server.sites, levels, strict=False))
        assert list(steps.method.plan(steps.server, 2).sites) == expected


def test_the_proximal_term_holds_noisy_sites_back_in_stage_1_only(tmp_path):
    steps = Steps(tmp_path, "fedcorr", None, epochs=3)

    def moved(phase, level):
        method = make_method("fedcorr", {"beta": 50.0})
        site = steps.site("site-1", phase=phase, noise_level=level, relabel="nothing")
        method.fit(site)
        return site.layout.read(site.network).values - steps.values

    trained = steps.server.layout.trained()
    free, held = moved(1, 0.0), moved(1, 1.0)
    assert np.linalg.norm(held[trained]) < 0.8 * np.linalg.norm(free[trained])
    np.testing.assert_array_equal(moved(2, 1.0), free)


def test_a_lost_correction_is_asked_for_again(tmp_path):
    options = {"t1": 1, "t2": 2, "kappa": 0}
    steps = Steps(tmp_path, "fedcorr", options, four_sites(), epochs=2, lr=0.02)
    steps.lose("site-4", 2)
    steps.play(2)
    assert steps.server.state["pending"] == {"site-4": "highest"}
    steps.play()
    acts = [o.round for o in steps.transport.orders if o.task == "survey"]
    assert acts == [2, 3]
    assert steps.server.state["pending"] == {"site-4": "all"}
    steps.play()
    assert steps.server.state["pending"] == {}


def test_a_site_that_missed_stage_1_joins_in_stage_3(tmp_path):
    steps = Steps(tmp_path, "fedcorr", SHORT, four_sites())
    steps.lose("site-2", 1)
    steps.play(3)
    rounds = [o.round for o in steps.transport.orders if o.site == "site-2" and o.task == "fit"]
    assert rounds == [1, 3]
