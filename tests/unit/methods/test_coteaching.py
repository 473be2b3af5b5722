"""The exchange of two networks, on logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i import losses
from feda3i.methods.coteaching import distil, exchange, per_pixel, smallest


def logits(seed, shape=(2, 1, 8, 8)):
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def masks(shape=(2, 1, 8, 8)):
    return (torch.rand(shape, generator=torch.Generator().manual_seed(9)) < 0.4).float()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=30), st.data())
def test_smallest_takes_exactly_as_many_also_among_equals(values, data):
    count = data.draw(st.integers(0, len(values)))
    tensor = torch.tensor(values, dtype=torch.float32)
    chosen = smallest(tensor, count)
    assert len(set(chosen.tolist())) == count
    torch.testing.assert_close(tensor[chosen].sort().values, tensor.sort().values[:count])


def test_each_learns_where_the_other_has_a_small_loss():
    a, b, y = logits(1), logits(2), masks()
    loss_a, loss_b = (losses.pixel_cross_entropy(z, y).flatten() for z in (a, b))
    count = int(0.7 * 128)
    expected = (
        loss_a[loss_b.argsort()[:count]].mean(),
        loss_b[loss_a.argsort()[:count]].mean(),
    )
    for found, wanted in zip(exchange([a, b], y, 0.7), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_share_of_one_is_two_cross_entropies():
    a, b, y = logits(1), logits(2), masks()
    assert exchange([a, b], y, 1.0) == [losses.cross_entropy(a, y), losses.cross_entropy(b, y)]


def test_swapping_the_networks_swaps_the_losses():
    a, b, y = logits(1), logits(2), masks()
    assert exchange([b, a], y, 0.8) == exchange([a, b], y, 0.8)[::-1]
    s = [logits(3), logits(4)]
    assert distil(s[::-1], [b, a], 50) == distil(s, [a, b], 50)[::-1]


def test_distillation_teaches_on_the_reliable_pixels_of_the_other():
    weak, strong = [logits(1), logits(2)], [logits(3), logits(4)]
    errors = [((s - z) ** 2).flatten() for s, z in zip(strong, weak, strict=True)]
    count = 40
    for own, other in ((0, 1), (1, 0)):
        sure = errors[other].argsort()[:count]
        kl = losses.bernoulli_kl(weak[other], strong[own]).flatten()[sure].mean()
        torch.testing.assert_close(distil(strong, weak, count)[own], kl)


def test_reliability_of_a_network_does_not_depend_on_the_other():
    # B learns on A's reliable pixels: another strong pass of B changes its divergence there, but
    # not which pixels they are. With A equal to B's teacher everywhere but in those, it shows.
    weak, strong = [logits(1), logits(2)], [logits(3), logits(4)]
    sure = ((strong[0] - weak[0]) ** 2).flatten().argsort()[:30]
    other = strong[1].clone().flatten()
    outside = torch.ones(128, dtype=torch.bool)
    outside[sure] = False
    other[outside] += 100.0
    changed = distil([strong[0], other.reshape(strong[1].shape)], weak, 30)[1]
    torch.testing.assert_close(changed, distil(strong, weak, 30)[1])


def test_equal_predictions_have_nothing_to_teach():
    a, b = logits(1), logits(2)
    found = distil([b, a], [a, b], 64)
    assert [float(value) for value in found] == [0.0, 0.0]
    assert all(value >= 0 for value in distil([logits(3), logits(4)], [a, b], 64))


def test_no_gradient_reaches_the_teacher():
    weak = [logits(1).requires_grad_(), logits(2).requires_grad_()]
    strong = [logits(3).requires_grad_(), logits(4).requires_grad_()]
    first = distil(strong, weak, 64)[0]
    gradients = torch.autograd.grad(first, [*weak, *strong], allow_unused=True)
    assert [gradient is not None for gradient in gradients] == [False, False, True, False]


def test_no_gradient_crosses_in_the_exchange():
    z = [logits(1).requires_grad_(), logits(2).requires_grad_()]
    gradients = torch.autograd.grad(exchange(z, masks(), 0.6)[0], z, allow_unused=True)
    assert [gradient is not None for gradient in gradients] == [True, False]


def test_a_pixel_is_left_out_with_all_its_classes():
    shape = (1, 3, 4, 4)
    a, b, y = logits(1, shape), logits(2, shape), masks(shape)
    mean_a, mean_b = (losses.pixel_cross_entropy(z, y).mean(1).flatten() for z in (a, b))
    expected = mean_a[mean_b.argsort()[:8]].mean()
    torch.testing.assert_close(exchange([a, b], y, 0.5)[0], expected)
    assert per_pixel(a).shape == (16,)


def test_finite_for_large_logits():
    big = torch.tensor([-1e4, 1e4, 0.0, 1e4]).reshape(1, 1, 2, 2)
    strong = [big.clone().requires_grad_(), (-big).clone().requires_grad_()]
    total = sum(distil(strong, [-big, big], 4)) + sum(exchange(strong, (big > 0).float(), 0.8))
    total.backward()
    assert torch.isfinite(total)
    assert all(torch.isfinite(z.grad).all() for z in strong)


@pytest.mark.parametrize("share", [0.001, 0.01])
def test_at_least_one_pixel_is_kept(share):
    assert torch.isfinite(exchange([logits(1), logits(2)], masks(), share)[0])
