"""RMD: two networks teach each other, on pixels that the teacher is sure of.

Paper
    Fang et al., Reliable Mutual Distillation for Medical Image Segmentation under Imperfect
    Annotations, IEEE Transactions on Medical Imaging 2023.
What changes against FedAvg
    Two networks A and B start from different weights; each is averaged over the sites on its own.
    Co-teaching: each learns from the pixels on which the OTHER has a small loss. The share of
    pixels left out grows to tau within t1 rounds.
    Distillation: the images are flipped (later also rotated, zoomed and made noisy) and pass a
    second time, with dropout in the encoder. A pixel is reliable if its logits change little. On
    the share mu of pixels that are most reliable for one network, the other learns that network's
    first prediction. This share and the weight of the loss grow as omega = exp(-5 (1 - t / t1)^2),
    with t counted from 0. Network A makes the predictions. Training costs four times FedAvg's.
What leaves the site
    The parameters of both networks, the number of cases, the mean training loss of the two.
Departures
    The clock is the round; the authors count epochs. mu = 0.8 and tau = 0.005 come from the FedA3I
    comparison, weight = 0.0009 from the authors' code. The teacher gets no gradient from its pupil
    (in the authors' code it does). The divergence is KL(teacher || student), as in their code for
    LIDC (reversed for ACDC). The deformation is a rotation and a zoom; the authors also move
    control points. Volumes are flipped only. Networks without the switch ``encoder_dropout`` (all
    but ``unet``) pass without dropout. With several classes a pixel's numbers are means over them.
    strong_statistics = false keeps the second pass out of BatchNorm's running statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from feda3i import losses
from feda3i.core.messages import Numbers
from feda3i.core.site import Batch, Site
from feda3i.methods.base import Method

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
NOISE = 0.02  # standard deviation of the noise in images, as a share of the range of intensities
DEGREES, ZOOM = (0.0, 60.0), (1.0, 2.0)
"""Limits of the rotation and of the magnification, drawn uniformly."""
_OTHER = ((0, 1), (1, 0))
Rate = Annotated[float, Field(ge=0, lt=1)]


class TwoNetworks(nn.Module):
    """Two networks side by side."""

    def __init__(self, a: nn.Module, b: nn.Module) -> None:
        super().__init__()
        self.a = a
        self.b = b
        if stages := getattr(a, "stages", ()):
            self.stages = tuple(f"{name}.{stage}" for name in ("a", "b") for stage in stages)

    def forward(self, images: Tensor) -> Tensor:
        """Return A's logits: network A makes the predictions."""
        return cast(Tensor, self.a(images))


class RMD(Method):
    """Two networks, small-loss exchange and distillation on reliable pixels."""

    loss: Literal["ce"] = "ce"
    """Pixels are ranked by their loss, and a Dice loss has none per pixel."""
    t1: Annotated[int, Field(ge=1)] = 10
    """Rounds until both shares are at their largest."""
    mu: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Largest share of pixels that count as reliable."""
    tau: Annotated[float, Field(ge=0, lt=1)] = 0.005
    """Largest share of pixels left out for their loss."""
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0009
    """Weight of the distillation; with tau = 0 and weight = 0 network A is that of FedAvg."""
    dropout: tuple[Rate, Rate, Rate, Rate, Rate] = (0.05, 0.1, 0.2, 0.3, 0.5)
    """Rates after the five stages of the encoder in the second pass."""
    warp_from: Annotated[int, Field(ge=0)] = 10
    """Complete rounds before images are also rotated, zoomed and made noisy."""
    strong_statistics: bool = True
    """Let the second pass update BatchNorm's running statistics as well."""

    def phases(self, rounds: int, state: Mapping[str, Any]) -> dict[str, int | None]:
        """Return when pixels are left out, and when images are disturbed by more than flips."""
        parts = {"leaving out pixels of large loss": 2 if self.tau > 0 else 0}
        if self.weight > 0:
            parts["distillation under rotation, zoom and noise"] = self.warp_from + 1
        return {part: first for part, first in parts.items() if first > 1}

    def network(self, build: Callable[[int], nn.Module]) -> nn.Module:
        """Return both networks; equal initialisations would make their exchange void."""
        return TwoNetworks(build(0), build(1))

    def fit(self, site: Site) -> Numbers:
        """Train both networks; the loss sent is the mean of the two."""
        # One Adam over both equals one Adam each: it works by element, and no gradient crosses.
        both = site.train(lambda batch: self.step(site, batch))
        return {"loss": cast(float, both["loss"]) / 2}

    def step(self, site: Site, batch: Batch) -> Tensor:
        """Return the sum of both networks' losses."""
        pair, t = cast(TwoNetworks, site.network), site.round - 1
        weak = [pair.a(batch.images), pair.b(batch.images)]
        total = torch.stack(exchange(weak, batch.masks, 1.0 - self.forget(t))).sum()
        reliable = int(min(self.omega(t) * self.mu, 1.0) * weak[0][:, 0].numel())
        if self.weight == 0 or reliable == 0:
            return total
        warps, images = self.disturb(site, batch)
        strong = self.strong(site, batch, images)
        taught = [warp_each(warps, z.detach()) for z in weak]
        distilled = torch.stack(distil(strong, taught, reliable)).sum()
        return total + self.weight * self.omega(t) * distilled

    def omega(self, t: int) -> float:
        """Return the ramp of the distillation after t complete rounds."""
        return math.exp(-5.0 * (1.0 - min(t, self.t1) / self.t1) ** 2)

    def forget(self, t: int) -> float:
        """Return the share of pixels left out for their loss after t complete rounds."""
        return self.tau * min(t / max(self.t1 - 1, 1), 1.0)

    def disturb(self, site: Site, batch: Batch) -> tuple[list[Warp], Tensor]:
        """Draw a warp per image; return them and the warped images, noisy in later rounds."""
        warps = [self._warp(site, batch.epoch, int(p)) for p in batch.positions]
        images = warp_each(warps, batch.images)
        if site.round - 1 < self.warp_from:
            return warps, images
        generator = site.torch_rng("augment-noise", batch.epoch, int(batch.positions[0]))
        noise = torch.randn(images.shape, generator=generator).to(images)
        return warps, (images + 255.0 * NOISE * noise).clamp(0.0, 255.0)

    def _warp(self, site: Site, epoch: int, position: int) -> Warp:
        """Draw which axes to mirror, all sets alike, and later a rotation and a zoom."""
        rng = site.rng("augment", epoch, position)
        flips = tuple(axis for axis in range(len(site.shape)) if rng.random() < 0.5)
        if site.round - 1 < self.warp_from or len(site.shape) != 2:
            return Warp(flips)
        degrees, zoom = float(rng.uniform(*DEGREES)), float(rng.uniform(*ZOOM))
        return Warp(flips, rotation_and_zoom(site.shape, degrees, zoom))

    def strong(self, site: Site, batch: Batch, images: Tensor) -> list[Tensor]:
        """Return both networks' logits of the disturbed images, with dropout in the encoder."""
        logits = []
        for name in ("a", "b"):
            network = getattr(site.network, name)
            seed = site.rng("dropout", name, batch.epoch, int(batch.positions[0])).integers(2**62)
            generator = torch.Generator(images.device).manual_seed(int(seed))
            switch = getattr(network, "encoder_dropout", None)  # not every network has one
            with (
                nullcontext() if switch is None else switch(self.dropout, generator),
                nullcontext() if self.strong_statistics else statistics_at_rest(network),
            ):
                logits.append(network(images))
        return logits


@contextmanager
def statistics_at_rest(network: nn.Module) -> Iterator[None]:
    """Let BatchNorm use the statistics of each batch without updating its running ones."""
    norms = [m for m in network.modules() if isinstance(m, BATCH_NORMS) and m.track_running_stats]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


def per_pixel(values: Tensor) -> Tensor:
    """Return ``(case, class, *space)`` as means over the classes, one number per pixel."""
    return values.mean(1).flatten()


def smallest(values: Tensor, count: int) -> Tensor:
    """Return the positions of the smallest values, exactly ``count`` of them."""
    return torch.topk(values, count, largest=False, sorted=False).indices


def exchange(logits: Sequence[Tensor], masks: Tensor, share: float) -> list[Tensor]:
    """Return each network's mean loss over the share of pixels on which the other's is smallest."""
    pixels = [per_pixel(losses.pixel_cross_entropy(z, masks)) for z in logits]
    count = int(share * len(pixels[0]))
    if count == len(pixels[0]):
        return [loss.mean() for loss in pixels]
    chosen = [smallest(loss.detach(), max(count, 1)) for loss in pixels]
    return [pixels[own][chosen[other]].mean() for own, other in _OTHER]


def distil(strong: Sequence[Tensor], weak: Sequence[Tensor], count: int) -> list[Tensor]:
    """Return each network's divergence from the other on the other's most reliable pixels.

    ``strong`` are both networks' logits of disturbed images, ``weak`` those of the plain ones,
    warped as these are, which teach. Reliable is where the two passes differ little.
    """
    taught = [z.detach() for z in weak]
    errors = [(s.detach() - z) ** 2 for s, z in zip(strong, taught, strict=True)]
    reliable = [smallest(per_pixel(error), count) for error in errors]
    return [
        per_pixel(losses.bernoulli_kl(taught[other], strong[own]))[reliable[other]].mean()
        for own, other in _OTHER
    ]


@dataclass(frozen=True)
class Warp:
    """A change of geometry: mirror some axes of space, then sample at displaced places."""

    flips: tuple[int, ...] = ()
    """Axes of space to mirror, counted from 0. Flips alone are exact and undo themselves."""
    places: Tensor | None = None
    """``(height, width, 2)`` where each pixel is taken from, (x, y) within [-1, 1]; the border is
    repeated beyond the frame. ``None`` leaves pixels in place."""

    def __call__(self, batch: Tensor) -> Tensor:
        """Return ``(case, channel, *space)`` warped, the same for every case and channel."""
        if self.flips:
            batch = batch.flip([axis + 2 for axis in self.flips])
        if self.places is None:
            return batch
        grid = self.places.to(batch).expand(len(batch), *self.places.shape)
        return functional.grid_sample(batch, grid, padding_mode="border", align_corners=True)


def warp_each(warps: Sequence[Warp], batch: Tensor) -> Tensor:
    """Return ``(case, channel, *space)``, each case warped in its own way, channels alike."""
    return torch.cat([warp(case[None]) for warp, case in zip(warps, batch, strict=True)])


def rotation_and_zoom(shape: Sequence[int], degrees: float, zoom: float) -> Tensor:
    """Return the places ``(height, width, 2)`` of a rotation about the middle and a zoom."""
    height, width = shape
    # In pixels, so that a frame that is not square is not sheared.
    half = torch.tensor([(width - 1) / 2, (height - 1) / 2])
    rows, columns = torch.linspace(-1, 1, height) * half[1], torch.linspace(-1, 1, width) * half[0]
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    cos, sin = (f(math.radians(degrees)) / zoom for f in (math.cos, math.sin))
    return torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1) / half


METHOD = RMD
