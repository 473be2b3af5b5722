"""Losses on logits: every value and gradient is finite for every finite logit.

Shapes: ``logits`` and ``targets`` are ``(case, class, *space)``; a class is one sigmoid of its own
(one against the rest), so that everything said for one foreground class holds for several.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over all pixels of the binary cross-entropy.

    >>> round(float(cross_entropy(torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2))), 6)
    0.693147
    """
    return functional.binary_cross_entropy_with_logits(logits, targets)


def pixel_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the binary cross-entropy of every pixel, same shape as the logits."""
    return functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")


def soft_dice(logits: Tensor, targets: Tensor, smooth: float = 1.0, eps: float = 1e-8) -> Tensor:
    """Return 1 - soft Dice per case and class, averaged over the batch."""
    p = torch.sigmoid(logits).flatten(2)
    y = targets.flatten(2)
    overlap = (p * y).sum(-1)
    return (1 - (2 * overlap + smooth) / (p.sum(-1) + y.sum(-1) + smooth + eps)).mean()


def cross_entropy_and_dice(logits: Tensor, targets: Tensor, weight: float = 0.5) -> Tensor:
    """Return ``weight * CE + (1 - weight) * soft Dice``: the Dice-involved ("DC") loss."""
    return weight * cross_entropy(logits, targets) + (1 - weight) * soft_dice(logits, targets)


def gce(logits: Tensor, targets: Tensor, q: float = 0.7) -> Tensor:
    """Return the generalised cross-entropy ``mean (1 - p_y^q) / q``.

    With q in (0, 1]: towards 0 this is cross-entropy, at 1 the mean absolute error.

    >>> round(float(gce(torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2))), 6)
    0.549183
    """
    log_p = -pixel_cross_entropy(logits, targets)
    # expm1 keeps the digits that 1 - p^q loses for small q.
    return -torch.expm1(q * log_p).mean() / q


def reverse_cross_entropy(logits: Tensor, targets: Tensor, clamp: float = 1e-5) -> Tensor:
    """Return ``-mean(p log y + (1 - p) log(1 - y))`` with y held off 0 and 1.

    For masks of 0 and 1 that is the mean absolute error times ``-log(clamp)``, up to a term of the
    size of the clamp. The two logarithms are numbers: float32 cannot tell 1 - 1e-5 well enough.
    """
    far, near = -math.log(clamp), -math.log1p(-clamp)
    error = (torch.sigmoid(logits) - targets).abs()
    return near + (far - near) * error.mean()


def sce(
    logits: Tensor, targets: Tensor, alpha: float = 0.5, beta: float = 1.0, clamp: float = 1e-5
) -> Tensor:
    """Return the symmetric cross-entropy ``alpha * CE + beta * reverse CE``.

    >>> round(float(sce(torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2))), 5)
    6.10304
    """
    reverse = reverse_cross_entropy(logits, targets, clamp)
    return alpha * cross_entropy(logits, targets) + beta * reverse


def nr_dice(logits: Tensor, targets: Tensor, gamma: float = 1.5, eps: float = 1e-5) -> Tensor:
    """Return the noise-robust Dice loss ``sum |p - y|^gamma / (sum p^2 + sum y^2)``.

    With gamma in [1, 2]: at 2 this is a Dice loss, at 1 close to the mean absolute error. Each
    class has its own sums over the whole batch; the mean over them is returned. Where nothing is
    annotated, squares would make the loss rise as the prediction rightly falls (L ~ p^(gamma - 2));
    such a batch gets the denominator ``sum p + sum y``.

    >>> logits = torch.logit(torch.tensor([0.8, 0.2])).reshape(1, 1, 2)
    >>> round(float(nr_dice(logits, torch.tensor([[[1.0, 0.0]]]))), 6)
    0.106479
    """
    over = (0, *range(2, logits.ndim))
    p = torch.sigmoid(logits)
    error = ((p - targets).abs() ** gamma).sum(over)
    annotated = targets.sum(over)
    squares = (p**2).sum(over) + (targets**2).sum(over)
    total = torch.where(annotated > 0, squares, p.sum(over) + annotated)
    return (error / (total + eps)).mean()


def bernoulli_kl(teacher: Tensor, student: Tensor) -> Tensor:
    """Return KL(teacher || student) of every pixel, both given as logits; same shape.

    >>> bernoulli_kl(torch.tensor([2.0, 1e4]), torch.tensor([2.0, -1e4]))
    tensor([    0., 10000.])
    """
    p = torch.sigmoid(teacher)
    foreground = functional.logsigmoid(teacher) - functional.logsigmoid(student)
    background = functional.logsigmoid(-teacher) - functional.logsigmoid(-student)
    return p * foreground + (1 - p) * background


def disagreement(views: Sequence[Tensor], limit: float = 1e-3) -> tuple[Tensor, Tensor]:
    """Return how far several predictions of the same pixels are apart, and their mean.

    Views are logits of one shape, e.g. of the same images at several scales. The first result is
    the sum over the views of KL(view || mean) per pixel (their number times the Jensen-Shannon
    divergence), the second the mean probability, held within ``[limit, 1 - limit]``.
    """
    z = torch.stack(list(views))
    p = torch.sigmoid(z)
    mean = p.mean(0).clamp(limit, 1 - limit)
    # From logits: p log p is then 0 and not NaN where p is 0.
    own = p * functional.logsigmoid(z) + (1 - p) * functional.logsigmoid(-z)
    shared = p * mean.log() + (1 - p) * torch.log1p(-mean)
    return (own - shared).sum(0), mean


def early_learning(logits: Tensor, t1: Tensor, total: Tensor, limit: float = 1e-4) -> Tensor:
    """Return ``mean log(1 - <t, p>)``, which pulls towards remembered targets.

    ``t1`` is the remembered probability of foreground, without gradient; ``total`` is t0 + t1,
    broadcastable: below one while the memory is young. p is held within ``[limit, 1 - limit]``.
    """
    p = torch.sigmoid(logits).clamp(limit, 1 - limit)
    return torch.log1p(-((total - t1) * (1 - p) + t1 * p)).mean()
