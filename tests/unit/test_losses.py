"""Losses: printed values, limits, gradients, and what they must not depend on."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i import losses

DOUBLE = torch.float64
LOSSES = {
    "ce": losses.cross_entropy,
    "dice": losses.soft_dice,
    "dc": losses.cross_entropy_and_dice,
    "gce": losses.gce,
    "sce": losses.sce,
    "nr-dice": losses.nr_dice,
    "kl": lambda z, y: losses.bernoulli_kl(2 * y - 1, z).mean(),
    "agreement": lambda z, y: losses.disagreement([z, z.flip(0), y - z])[0].mean(),
    "elr": lambda z, y: losses.early_learning(z, 0.3 * y, torch.tensor(0.4, dtype=z.dtype)),
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


def random_pair(shape=(2, 3, 4, 5), seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(shape, generator=generator, dtype=DOUBLE)
    targets = (torch.rand(shape, generator=generator) < 0.4).to(DOUBLE)
    return logits, targets


@each_loss
@pytest.mark.parametrize("shape", [(2, 1, 3, 4), (2, 3, 2, 2), (1, 2, 2, 3, 2)])
def test_gradient_equals_finite_differences(loss, shape):
    logits, targets = random_pair(shape)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), logits, eps=1e-6, atol=1e-7)


@each_loss
@pytest.mark.parametrize("fill", [None, 0.0, 1.0])
def test_value_and_gradient_are_finite_for_large_logits(loss, fill):
    logits = torch.tensor([-1e4, -100.0, -1.0, 0.0, 1.0, 100.0, 1e4]).repeat(2, 1, 2, 1)
    targets = torch.full_like(logits, fill or 0.0)
    if fill is None:
        targets[..., 1, :] = 1.0
    for z in (logits, torch.full_like(logits, 1e4), torch.full_like(logits, -1e4)):
        value = loss(z.requires_grad_(), targets)
        value.backward()
        assert value.shape == ()
        assert torch.isfinite(torch.stack([value, *z.grad.flatten()])).all()


@pytest.mark.parametrize("name", ["ce", "gce", "sce", "nr-dice", "elr"])
def test_several_classes_are_the_mean_over_classes(name):
    logits, targets = random_pair()
    alone = [LOSSES[name](logits[:, [k]], targets[:, [k]]) for k in range(3)]
    torch.testing.assert_close(LOSSES[name](logits, targets), torch.stack(alone).mean())


@settings(max_examples=50)
@given(z=st.floats(-50, 50), y=st.sampled_from([0.0, 1.0]), q=st.floats(0.01, 1.0))
def test_gce_limits_gradient_and_symmetry(z, y, q):
    logits = torch.tensor([[[z]]], dtype=DOUBLE, requires_grad=True)
    targets = torch.tensor([[[y]]], dtype=DOUBLE)
    value = losses.gce(logits, targets, q)
    assert 0 <= value.item() <= 1 / q + 1e-12
    (own,) = torch.autograd.grad(value, logits)
    (ce,) = torch.autograd.grad(losses.cross_entropy(logits, targets), logits)
    p_y = torch.sigmoid(logits if y else -logits)
    torch.testing.assert_close(own, p_y**q * ce, rtol=1e-7, atol=1e-12)
    torch.testing.assert_close(losses.gce(-logits, 1 - targets, q), value)
    torch.testing.assert_close(losses.gce(logits, targets, 1.0), 1 - p_y.mean())


def test_sce_is_the_formula_with_clamped_masks():
    logits, targets = random_pair()
    p, y = torch.sigmoid(logits), targets.clamp(1e-4, 1 - 1e-4)
    reverse = -(p * y.log() + (1 - p) * (1 - y).log()).mean()
    expected = 0.3 * losses.cross_entropy(logits, targets) + 2.0 * reverse
    torch.testing.assert_close(losses.sce(logits, targets, 0.3, 2.0, 1e-4), expected)


def test_nr_dice_lies_between_a_dice_loss_and_an_absolute_error():
    logits, targets = random_pair((3, 1, 8, 8))
    p = torch.sigmoid(logits)
    squares = (p**2).sum() + (targets**2).sum() + 1e-5
    dice = 1 - 2 * (p * targets).sum() / squares
    torch.testing.assert_close(losses.nr_dice(logits, targets, 2.0), dice, rtol=0, atol=1e-5)
    error = (p - targets).abs().sum() / squares
    torch.testing.assert_close(losses.nr_dice(logits, targets, 1.0), error)


def test_nr_dice_guard_is_per_class():
    logits, targets = random_pair()
    targets[:, 1] = 0
    parts = [losses.nr_dice(logits[:, [k]], targets[:, [k]]) for k in range(3)]
    p = torch.sigmoid(logits[:, 1])
    torch.testing.assert_close(parts[1], (p**1.5).sum() / (p.sum() + 1e-5))
    torch.testing.assert_close(losses.nr_dice(logits, targets), torch.stack(parts).mean())


def test_kl_equals_torch_distributions():
    teacher, student = random_pair()[0], random_pair(seed=5)[0]
    make = torch.distributions.Bernoulli
    expected = torch.distributions.kl_divergence(make(logits=teacher), make(logits=student))
    torch.testing.assert_close(losses.bernoulli_kl(teacher, student), expected)
    assert (losses.bernoulli_kl(teacher, student) >= 0).all()
    assert (losses.bernoulli_kl(teacher, teacher) == 0).all()


def test_disagreement_is_the_jensen_shannon_divergence():
    views = [random_pair(seed=s)[0] for s in range(3)]
    divergence, mean = losses.disagreement(views)
    entropy = lambda p: -(torch.special.xlogy(p, p) + torch.special.xlogy(1 - p, 1 - p))
    p = torch.sigmoid(torch.stack(views))
    expected = 3 * (entropy(p.mean(0)) - entropy(p).mean(0))
    torch.testing.assert_close(divergence, expected, rtol=0, atol=1e-3)
    torch.testing.assert_close(mean, p.mean(0))


@settings(max_examples=50, deadline=None)
@given(z=st.floats(-30, 30), total=st.floats(0, 1), share=st.floats(0, 1))
def test_early_learning_is_bounded_and_pulls_to_the_remembered_class(z, total, share):
    p = torch.sigmoid(torch.tensor([[[z]]], dtype=DOUBLE)).clamp(2e-4, 1 - 2e-4)
    p.requires_grad_()
    t1 = (share * torch.tensor([[[total]]], dtype=DOUBLE)).clamp(1e-4 * total, (1 - 1e-4) * total)
    value = losses.early_learning(torch.logit(p), t1, torch.tensor(total, dtype=DOUBLE))
    assert math.log(2e-4) - 1e-9 <= value.item() <= 1e-12
    (gradient,) = torch.autograd.grad(value, p)
    gap = (2 * t1 - total).item()  # t1 - t0
    assert gradient.item() * gap <= 0
