"""The way from an image as it comes to its mask as one network: what ``feda3i predict`` does.

Sizes are brought in line by matrices made of the image's own size, so that a traced or exported
graph takes images of any size. The arithmetic is that of ``feda3i.core.resize``: area means where
a side shrinks, linear interpolation where it grows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from feda3i.core.normalise import MIDDLE, SPREAD, TOP, Normalise
from feda3i.core.predictor import Predictor
from feda3i.errors import RunError


class MaskGraph(nn.Module):
    """From one image ``(channel, *space)`` of any size to its mask ``(*space)``.

    The image holds bytes, or floats if the model normalises its images. The mask holds bytes: 0 is
    background, 1..C the classes, as ``Predictor.picture`` gives them.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        form = predictor.format
        if form.aspect == "crop":
            raise RunError(
                "this model takes the central square of each picture (data.aspect=crop), which an "
                "export cannot do; crop pictures yourself and train with data.aspect=squeeze"
            )
        if form.patches:
            raise RunError(
                "this model was trained on patches and slides over its images (train.patch), which "
                "one graph cannot do; predict with feda3i, or train without patches"
            )
        if form.normalise.name == "percentiles" and form.normalise.over != "all":
            raise RunError(
                "this model normalises by percentiles of what is not 0 (data.normalise_over), "
                "which an export cannot do"
            )
        self.normalise = form.normalise
        self.dtype = torch.uint8 if form.normalise.is_none else torch.float32
        self.network = predictor.network.cpu().eval()
        predictor.device = torch.device("cpu")  # the check asks it as well
        self.answer = predictor.forward
        self.size = form.shape
        self.channels = form.channels
        self.aspect = form.aspect

    def forward(self, image: Tensor) -> Tensor:
        """Return the mask of an image."""
        values = image.to(torch.float32)
        sides = [_side(values, axis + 1) for axis in range(len(self.size))]
        whole = torch.stack(sides).amax() if self.aspect == "pad" else None
        small = values
        for axis, wanted in enumerate(self.size):
            weights = _weights(sides[axis], whole, _steps(small, axis + 1), wanted)
            small = _along(small, weights, axis + 1)
        if self.dtype == torch.uint8:
            small = _rounded(small, sides, self.size)
        else:
            small = _normalised(small, self.normalise)
        found = torch.sigmoid(self.answer(self.network, small[None]))[0]
        for axis, wanted in enumerate(self.size):
            weights = _weights_back(sides[axis], whole, _steps(values, axis + 1), wanted)
            found = _along(found, weights, axis + 1)
        best = found.argmax(dim=0).to(torch.uint8) + 1
        return torch.where(found.amax(dim=0) > 0.5, best, torch.zeros_like(best))


def _steps(values: Tensor, axis: int) -> Tensor:
    """Return 0, 1, ... along an axis, in double precision."""
    return torch.arange(values.shape[axis], device=values.device).to(torch.float64)


def _side(values: Tensor, axis: int) -> Tensor:
    """Return the length of an axis as a tensor: a graph keeps asking for it."""
    return torch.ones_like(_steps(values, axis)).sum()


def _along(values: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Return the values with an axis replaced by weighted sums over it."""
    moved = values.movedim(axis, -1) @ weights.to(values.dtype).T
    return moved.movedim(-1, axis)


def _weights(side: Tensor, whole: Tensor | None, places: Tensor, wanted: int) -> Tensor:
    """Return ``(wanted, side)``: what each pixel of the network's image is made of.

    With ``whole`` the image lies in the middle of black borders up to that side.
    """
    length = side if whole is None else whole
    before = torch.zeros_like(length) if whole is None else torch.floor((whole - side) / 2)
    out = torch.arange(wanted, device=places.device).to(torch.float64)[:, None]
    return _resampling(out, (places + before)[None], length / wanted, length)


def _weights_back(side: Tensor, whole: Tensor | None, places: Tensor, wanted: int) -> Tensor:
    """Return ``(side, wanted)``: what each pixel of the image takes from the network's answer."""
    length = side if whole is None else whole
    before = torch.zeros_like(length) if whole is None else torch.floor((whole - side) / 2)
    inner = torch.arange(wanted, device=places.device).to(torch.float64)[None]
    return _resampling((places + before)[:, None], inner, wanted / length, inner.new_tensor(wanted))


def _resampling(out: Tensor, inner: Tensor, ratio: Tensor, count: Tensor) -> Tensor:
    """Return the weights of inner pixels for outer ones that are ``ratio`` inner pixels wide."""
    overlap = torch.minimum((out + 1) * ratio, inner + 1) - torch.maximum(out * ratio, inner)
    area = overlap.clamp(min=0.0) / ratio
    centre = torch.minimum(((out + 0.5) * ratio - 0.5).clamp(min=0.0), count - 1)
    linear = (1.0 - (centre - inner).abs()).clamp(min=0.0)
    return torch.where(ratio >= 1, area, linear)


def _rounded(values: Tensor, sides: list[Tensor], size: tuple[int, ...]) -> Tensor:
    """Return whole grey levels; OpenCV rounds ties up where both sides are halved, else to even."""
    halved = torch.stack([side == 2 * wanted for side, wanted in zip(sides, size, strict=True)])
    is_halved = halved.all() if len(size) == 2 else torch.zeros_like(halved.all())
    return torch.where(is_halved, torch.floor(values + 0.5), torch.round(values))


def _normalised(image: Tensor, rule: Normalise) -> Tensor:
    """Return ``(channel, *space)`` as ``Normalise`` shows it to a network."""
    values = image.flatten(1).to(torch.float64)
    first, second = (float("nan"), float("nan")) if rule.by is None else rule.by
    low, high = (torch.full_like(values[:, :1], number) for number in (first, second))
    if rule.name == "zscore":
        # Zeros count only where there is nothing else.
        counts = torch.ones_like(values)
        if rule.over == "nonzero":
            is_there = (values != 0).to(values.dtype)
            counts = torch.where(is_there.sum(1, keepdim=True) > 0, is_there, counts)
        total = counts.sum(1, keepdim=True)
        low = (values * counts).sum(1, keepdim=True) / total
        high = (((values - low) ** 2 * counts).sum(1, keepdim=True) / total).sqrt()
    elif rule.name == "percentiles":
        ordered = values.sort(dim=1).values
        low, high = (_percentile(ordered, share) for share in (first, second))
    if rule.name in ("zscore", "constant"):
        scale = torch.where(high > 0, SPREAD / high.clamp(min=1e-300), torch.zeros_like(high))
        shown = scale * values + (MIDDLE - scale * low)
    else:
        width = high - low
        scale = torch.where(width > 0, TOP / width.clamp(min=1e-300), torch.zeros_like(width))
        shown = (scale * values - scale * low).clamp(0.0, TOP)
    return shown.to(image.dtype).reshape(image.shape)


def _percentile(ordered: Tensor, share: float) -> Tensor:
    """Return a percentile of sorted rows, between neighbours linearly."""
    place = share / 100 * (ordered.shape[1] - 1)
    below, part = math.floor(place), place - math.floor(place)
    above = min(below + 1, ordered.shape[1] - 1)
    return ordered[:, below : below + 1] * (1 - part) + ordered[:, above : above + 1] * part
