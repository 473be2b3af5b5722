from types import SimpleNamespace

import numpy as np
import pytest
import torch
from at_site import site_of

from feda3i.methods import fedselect
from feda3i.methods.fedselect import FedSelect, adam, first_phi, value, value_gradient
from feda3i.seeding import rng

PHI = first_phi(np.random.default_rng(3))
LOSSES = np.array([0.9, 0.2, 0.5, 0.1])


def test_v_and_its_gradient_are_those_of_torch() -> None:
    layers = torch.nn.Linear(1, 100), torch.nn.ReLU(), torch.nn.Linear(100, 1), torch.nn.Sigmoid()
    net = torch.nn.Sequential(*layers).double()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(PHI), net.parameters())
    answers = net(torch.from_numpy(LOSSES)[:, None])[:, 0]
    np.testing.assert_allclose(value(PHI, LOSSES), answers.detach())
    for k, answer in enumerate(answers):
        rows = torch.autograd.grad(answer, list(net.parameters()), retain_graph=True)
        row = torch.cat([part.flatten() for part in rows])
        np.testing.assert_allclose(value_gradient(PHI, LOSSES)[k], row, atol=1e-12)


def test_adam_is_that_of_torch() -> None:
    theirs = torch.nn.Parameter(torch.from_numpy(PHI.copy()))
    optimiser, ours, moments = torch.optim.Adam([theirs], lr=0.01), PHI, np.zeros(2 * len(PHI))
    for step in range(1, 4):
        theirs.grad = torch.sin(theirs.detach() * step)
        ours, moments = adam(ours, moments, np.sin(ours * step), 0.01, step)
        optimiser.step()
    np.testing.assert_allclose(ours, theirs.detach(), atol=1e-12)


@pytest.mark.parametrize("replace", [True, False])
def test_images_are_drawn_by_their_weights(tmp_path, replace: bool) -> None:
    site = site_of(tmp_path, "fedselect", replace=replace, rho=0.5)
    v = np.zeros(len(site))
    v[:3] = 1
    drawn = site.method.order(site, v, 0)
    assert len(drawn) == max(2, len(site) // 2)
    assert set(drawn) <= set(np.flatnonzero(v))
    assert np.array_equal(drawn, site.method.order(site, v, 0))
    assert replace or len(set(drawn)) == len(drawn)


def test_the_proxy_set_holds_the_images_that_were_learnt_most(tmp_path) -> None:
    site = site_of(tmp_path, "fedselect", proxy=0.5)
    before = np.linspace(1, 2, len(site))
    site.method.remember(site, before, np.ones(len(site)))
    count = max(1, len(site) // 2)
    assert site.memory["proxy"].tolist() == list(range(len(site) - count, len(site)))


def test_the_slope_of_a_weight_is_that_of_a_small_change(tmp_path, monkeypatch) -> None:
    """The proxy loss after a virtual step, by brute force: change one weight, look again."""
    site = site_of(tmp_path, "fedselect", virtual_lr=0.05)
    method, batch, proxy = site.method, site.batch(np.arange(2)), np.array([0])
    weights = np.array([0.4, 0.6])
    monkeypatch.setattr(fedselect, "value", lambda phi, losses: weights)
    slopes, _ = method.virtual(site, PHI, batch, proxy)

    def proxy_loss(v: np.ndarray) -> float:
        site.load(site.received)
        site.network.train()
        losses = method.by_image(site.network(batch.images), batch.masks)
        params = list(site.network.parameters())
        inner = torch.autograd.grad((torch.from_numpy(v).float() * losses).mean(), params)
        site.load(site.received)
        fedselect._move(params, list(inner), -method.virtual_lr)
        site.network.eval()
        seen = site.batch(proxy)
        with torch.no_grad():
            return float(method.by_image(site.network(seen.images), seen.masks).mean())

    brute = [
        (proxy_loss(weights + step) - proxy_loss(weights - step)) / 0.4 for step in np.eye(2) * 0.2
    ]
    np.testing.assert_allclose(slopes, brute, rtol=0.1, atol=1e-5)


def test_sites_are_drawn_by_g_after_the_start() -> None:
    names = [f"s{k}" for k in range(10)]
    server = SimpleNamespace(
        sites=dict.fromkeys(names, 1),
        state={"g": {name: 1.0 if name < "s4" else 1e-9 for name in names}},
        rounds=10,
        rng=lambda *scope: rng(0, *scope),
    )
    method = FedSelect()
    assert method.drawn(server, 5) == ("s0", "s1", "s2", "s3")
    assert len(method.drawn(server, 1)) == 4
    server.sites = {"a": 1, "b": 2}
    assert method.drawn(server, 5) is None
