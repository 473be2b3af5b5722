"""Resizing and normalising as ``feda3i predict`` does, in tensors whose sizes a graph leaves open.

Images are resized by matrices made from their own size, as in ``feda3i.core.resize``: area means
where a side shrinks, linear interpolation where it grows.
"""

import torch
from torch import Tensor

from feda3i.core.format import Format
from feda3i.core.normalise import MIDDLE, SPREAD, TOP, Normalise

Straight = tuple[Tensor, Tensor, bool]
"""Scale and shift by channel in double precision, and whether values are cut to 0..255."""


def takes_bytes(form: Format) -> bool:
    """Return whether a graph is given bytes, and not values as they are in a file."""
    return form.normalise.is_none and not form.keeps_values


def shrunk(values: Tensor, size: tuple[int, ...], is_bytes: bool) -> Tensor:
    """Return an image ``(channel, *space)`` at the size that the network was trained at."""
    places = _places(values, len(size))
    small = values
    for axis, (wanted, (place, length)) in enumerate(zip(size, places, strict=True)):
        weights = _resampling(_steps(wanted, values)[:, None], place[None], length / wanted, length)
        small = _along(small, weights, axis + 1)
    if not is_bytes:
        return small
    sides = [traced_side(values, axis + 1) for axis in range(len(size))]
    halved = torch.stack([side == 2 * wanted for side, wanted in zip(sides, size, strict=True)])
    # OpenCV rounds ties up where both sides are halved, else to even.
    is_halved = halved.all() if len(size) == 2 else torch.zeros_like(halved.all())
    return torch.where(is_halved, torch.floor(small + 0.5), torch.round(small))


def enlarged(found: Tensor, size: tuple[int, ...], image: Tensor) -> Tensor:
    """Return maps ``(class, *size)`` at the size of their image ``(channel, *space)``."""
    places = _places(image, len(size))
    for axis, (wanted, (place, length)) in enumerate(zip(size, places, strict=True)):
        inner = _steps(wanted, image)[None]
        count = inner.new_tensor(wanted)
        found = _along(found, _resampling(place[:, None], inner, wanted / length, count), axis + 1)
    return found


def _places(image: Tensor, dimensions: int) -> list[tuple[Tensor, Tensor]]:
    """Return for each axis the places of an image's pixels, and their number."""
    axes = range(1, dimensions + 1)
    return [(_steps(image.shape[axis], image), traced_side(image, axis)) for axis in axes]


def labelled(found: Tensor) -> Tensor:
    """Return 0..C of probabilities ``(class, *space)``: the likeliest class above one half."""
    best = found.argmax(dim=0).to(torch.uint8) + 1
    return torch.where(found.amax(dim=0) > 0.5, best, torch.zeros_like(best))


def line_of(image: Tensor, rule: Normalise) -> Straight:
    """Return the line by which ``Normalise`` shows ``(channel, *space)`` to a network."""
    values = image.flatten(1).to(torch.float64)
    first, second = (1.0, 1.0) if rule.by is None else rule.by
    low, high = (torch.full_like(values[:, :1], number) for number in (first, second))
    if rule.is_none:
        return high, torch.zeros_like(low), False
    counts = torch.ones_like(values)
    if rule.over == "nonzero":  # zeros count only where there is nothing else
        is_there = (values != 0).to(values.dtype)
        counts = torch.where(is_there.sum(1, keepdim=True) > 0, is_there, counts)
    total = counts.sum(1, keepdim=True)
    if rule.name == "zscore":
        low = (values * counts).sum(1, keepdim=True) / total
        high = (((values - low) ** 2 * counts).sum(1, keepdim=True) / total).sqrt()
    elif rule.name == "percentiles":
        beyond = torch.full_like(values, float("inf"))
        ordered = torch.where(counts > 0, values, beyond).sort(dim=1).values
        low, high = (_percentile(ordered, total, share) for share in (first, second))
    if rule.name in ("zscore", "constant"):
        scale = torch.where(high > 0, SPREAD / high.clamp(min=1e-300), torch.zeros_like(high))
        return scale, MIDDLE - scale * low, False
    width = high - low
    scale = torch.where(width > 0, TOP / width.clamp(min=1e-300), torch.zeros_like(width))
    return scale, -scale * low, True


def as_seen(image: Tensor, line: Straight) -> Tensor:
    """Return ``(channel, *space)`` as a network sees it, computed in the image's own precision."""
    scale, shift, is_cut = line
    shape = (-1, *[1] * (image.ndim - 1))
    values = image * scale.to(image.dtype).reshape(shape) + shift.to(image.dtype).reshape(shape)
    return values.clamp(0.0, TOP) if is_cut else values


def _percentile(ordered: Tensor, total: Tensor, share: float) -> Tensor:
    """Return a percentile of the first ``total`` of sorted rows, between neighbours linearly."""
    place = share / 100 * (total - 1)
    below, above = torch.floor(place), torch.minimum(torch.floor(place) + 1, total - 1)
    part = place - below
    low, high = (ordered.gather(1, at.to(torch.int64)) for at in (below, above))
    return low * (1 - part) + high * part


def traced_side(values: Tensor, axis: int) -> Tensor:
    """Return the length of an axis as a tensor that stays open in a graph."""
    return torch.ones_like(_steps(values.shape[axis], values)).sum()


def _steps(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, device=like.device).to(torch.float64)


def _along(values: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Return the values with an axis replaced by weighted sums over it."""
    moved = values.movedim(axis, -1) @ weights.to(values.dtype).T
    return moved.movedim(-1, axis)


def _resampling(out: Tensor, inner: Tensor, ratio: Tensor, count: Tensor) -> Tensor:
    """Return the weights of inner pixels for outer ones that are ``ratio`` inner pixels wide."""
    overlap = torch.minimum((out + 1) * ratio, inner + 1) - torch.maximum(out * ratio, inner)
    area = overlap.clamp(min=0.0) / ratio
    centre = torch.minimum(((out + 0.5) * ratio - 0.5).clamp(min=0.0), count - 1)
    linear = (1.0 - (centre - inner).abs()).clamp(min=0.0)
    return torch.where(ratio >= 1, area, linear)
